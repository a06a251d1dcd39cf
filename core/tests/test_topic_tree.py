"""The tree of topic filters, against comparing each with each."""

from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.topic_tree import TopicTree
from mqloom.core.topics import topic_filter_covers

levels = st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), min_size=1, max_size=3)
topic_filters = st.tuples(levels, st.sampled_from(["", "/#"])).map(lambda pair: "/".join(pair[0]) + pair[1])
topic_filters = topic_filters.filter(bool) | st.sampled_from(["#", "/#", "+/#", "$x/#", "/"])


@given(st.sets(topic_filters, max_size=30), st.sets(topic_filters, max_size=10), topic_filters)
def test_it_finds_what_covers_and_what_is_covered(kept: set[str], gone: set[str], asked: str) -> None:
    tree = TopicTree()
    for topics in sorted(kept | gone):
        tree.add(topics)
        tree.add(topics)
    for topics in sorted(gone - kept):
        tree.remove(topics)
    assert sorted(tree.covering(asked)) == sorted(each for each in kept if topic_filter_covers(each, asked))
    assert sorted(tree.covered(asked)) == sorted(each for each in kept if topic_filter_covers(asked, each))


@given(st.sets(topic_filters, max_size=30))
def test_nothing_is_left_when_all_are_gone(kept: set[str]) -> None:
    tree = TopicTree()
    for topics in sorted(kept):
        tree.add(topics)
    for topics in sorted(kept):
        tree.remove(topics)
    assert not tree._root.below


def test_a_topic_of_very_many_levels_is_no_trouble() -> None:
    tree = TopicTree()
    deep = "/".join("a" * 5_000)
    tree.add(deep)
    tree.add("#")
    assert sorted(tree.covering(deep)) == ["#", deep]
    assert sorted(tree.covered("#")) == ["#", deep]
