"""Names of subscriptions: made from what is wanted, so that the next start of a program finds the same ones."""

import hashlib

from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.records import Wish


def wish_name(wish: Wish) -> str:
    """Return a name that another filter does not have: what still comes for an earlier one is then told apart."""
    name = f"{wish.topics} WHERE {wish.where}" if wish.where else wish.topics
    if len(name) <= ID_LENGTH_MAX:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{name[: ID_LENGTH_MAX - len(digest) - 1]} {digest}"
