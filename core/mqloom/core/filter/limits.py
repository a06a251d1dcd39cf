"""How large a filter may be. Beyond a limit a filter is refused, with an error that names it.

Filters come from clients nobody vouches for, and every gateway on their way parses them again.
"""

from typing import Final

TEXT_MAX: Final = 8192
"""Characters, of the text as written and of the canonical text."""

DEPTH_MAX: Final = 50
"""Parentheses and NOTs within each other. Of what the limits below let through, the canonical text has half of that."""

VALUES_MAX: Final = 1024
"""Values of one IN."""

DIGITS_MAX: Final = 640
"""Digits of an integer. Python converts that many whatever `sys.set_int_max_str_digits` was told."""

CONJUNCTIONS_MAX: Final = 64
"""Conjunctions of the normal form."""

PREDICATES_MAX: Final = 256
"""Predicates of the normal form, over all its conjunctions."""
