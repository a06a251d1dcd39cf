"""Every answer as a view of SQL: `SELECT * FROM forecast` in `mqloom spark sql`.

A view is made when a query names it, because some take a pass over all telemetry. Times are timestamps there.
"""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType

from mqloom.spark_analytics.capacity import balancing, overlay, redundancy, service, utilisation, what_if
from mqloom.spark_analytics.capacity.analysis import Analysis, Tell, analyse
from mqloom.spark_analytics.capacity.clocks import Extent, ends_of, extent_of
from mqloom.spark_analytics.capacity.forecast import SCHEMA as FORECAST_SCHEMA
from mqloom.spark_analytics.capacity.frames import Telemetry, columns, frame_of
from mqloom.spark_analytics.capacity.groups import group_traffic
from mqloom.spark_analytics.capacity.questions import Questions
from mqloom.spark_analytics.capacity.relations import relations_in

_TIMES: Final = re.compile(r"^(at|.*_at|full_from|full_to)$")


def _tell_nobody(_share: float, _text: str) -> None:
    """Tell nobody."""


class CapacityViews:
    """The views over some telemetry."""

    def __init__(self, telemetry: Telemetry, questions: Questions | None = None) -> None:
        self._telemetry = telemetry
        self._questions = questions or Questions()
        self._made: set[str] = set()
        self._tell: Tell = _tell_nobody

    def ensure(self, query: str, tell: Tell = _tell_nobody) -> list[str]:
        """Make the views that a query names and that are not there yet; return which these are.

        Those that are no plain query may take long, and `tell` hears how far they are.
        """
        self._tell = tell
        new = sorted(relations_in(query) & VIEWS.keys() - self._made)
        for name in new:
            _with_times(VIEWS[name](self)).createOrReplaceTempView(name)
            self._made.add(name)
        return new

    @property
    def load(self) -> DataFrame:
        """Raw load records."""
        return self._telemetry["load"]

    @property
    def within(self) -> DataFrame:
        """Those whose times can be right."""
        return self.extent[0].within(self.load)

    def of(self, kind: str) -> DataFrame:
        """Return raw records of a kind."""
        return self._telemetry[kind]

    @cached_property
    def analysis(self) -> Analysis:
        """All answers, for views that are no plain query."""
        return analyse(self._telemetry, self._questions, self._tell)

    @cached_property
    def extent(self) -> tuple[Extent, float, int]:
        """When load records begin and end, how long a window is, and how many brokers there are; nothing of none."""
        ends = columns(ends_of(self.load))
        if not len(ends["gateway"]):
            return Extent(0.0, 0.0), 0.0, 0
        return extent_of(self.load, ends), float(ends["window_s"].max()), len(ends["gateway"])

    @property
    def span(self) -> tuple[float, float, int]:
        """For how long there is telemetry, how long a window is, and how many brokers there are: for buckets."""
        extent, window_s, brokers = self.extent
        return extent.end_at - extent.start_at + window_s, window_s, brokers

    @cached_property
    def bucket_s(self) -> int:
        """How long buckets of time are."""
        return utilisation.bucket_s_for(*self.span)

    @cached_property
    def daily(self) -> DataFrame:
        """Utilisation by the hour or shorter, of the last days."""
        extent, _, brokers = self.extent
        bucket_s = utilisation.daily_bucket_s_for(*self.span)
        return utilisation.utilisation_over_time(utilisation.lately(self.within, extent.end_at, brokers), bucket_s)

    @cached_property
    def over_time(self) -> DataFrame:
        """Utilisation by bucket."""
        return utilisation.utilisation_over_time(self.within, self.bucket_s)

    @cached_property
    def sessions(self) -> DataFrame:
        """Sessions of load agents."""
        return balancing.sessions(self.of("migration"))

    def rows(self, found: object, schema: str) -> DataFrame:
        """Return results that are no query as a DataFrame."""
        assert isinstance(found, list)
        return frame_of(self.load.sparkSession, found, schema)


VIEWS: Final[dict[str, Callable[[CapacityViews], DataFrame]]] = {
    "utilisation": lambda views: utilisation.utilisation(views.load),
    "utilisation_over_time": lambda views: views.over_time,
    "hot_hours": lambda views: utilisation.hot_hours(views.daily),
    "imbalance": lambda views: utilisation.imbalance(views.over_time, views.analysis.members),
    "forecast": lambda views: views.rows([each.row() for each in views.analysis.forecasts], FORECAST_SCHEMA),
    "service_model": lambda views: views.rows(list(views.analysis.models.values()), service.SCHEMA),
    "headroom": lambda views: views.rows(views.analysis.headroom, service.HEADROOM_SCHEMA),
    "what_if": lambda views: views.rows(
        [row for scenario in views.analysis.scenarios for row in scenario.rows()], what_if.SCHEMA
    ),
    "overlay": lambda views: overlay.overlay(views.of("link"), views.extent[0].end_at),
    "soft_links_worth_having": lambda views: views.rows(views.analysis.candidates, overlay.CANDIDATE_SCHEMA),
    "best_place": lambda views: views.rows(views.analysis.sites, overlay.PLACE_SCHEMA),
    "balancing_sessions": lambda views: views.sessions,
    "predictions": lambda views: balancing.predictions(views.sessions),
    "undone_sessions": lambda views: balancing.undone(views.sessions),
    "settings_to_change": lambda views: views.rows(list(views.analysis.balancing.changes), balancing.CHANGE_SCHEMA),
    "group_traffic": lambda views: group_traffic(views.of("group"), utilisation.utilisation(views.load)),
    "redundancy": lambda views: views.rows(views.analysis.redundancy, redundancy.SCHEMA),
    "families": lambda views: views.rows(views.analysis.families, redundancy.FAMILY_SCHEMA),
    "clusters": lambda views: views.rows(
        [] if views.analysis.clusters is None else [views.analysis.clusters], redundancy.CLUSTERS_SCHEMA
    ),
}
"""The views, and how each is made."""


def _with_times(frame: DataFrame) -> DataFrame:
    """Return a DataFrame whose Unix times are timestamps."""
    return frame.select(
        *(
            f.timestamp_seconds(field.name).alias(field.name)
            if _TIMES.match(field.name) and isinstance(field.dataType, DoubleType)
            else f.col(field.name)
            for field in frame.schema.fields
        )
    )
