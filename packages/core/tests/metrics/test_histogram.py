from octavo.metrics.histogram import Histogram


def test_a_bound_belongs_to_the_bucket_that_it_ends() -> None:
    histogram = Histogram(bounds=(1.0, 10.0))
    for value in (0, 1, 1.5, 10, 11):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.total == 23.5


def test_a_value_can_count_several_times() -> None:
    histogram = Histogram(bounds=(1.0,))
    histogram.observe(0.5, 4)
    assert (histogram.counts, histogram.total) == ([4, 0], 2.0)


def test_a_copy_shares_nothing() -> None:
    histogram = Histogram(bounds=(1.0,))
    copy = histogram.copy()
    histogram.observe(3)
    assert (copy.counts, copy.total) == ([0, 0], 0.0)
