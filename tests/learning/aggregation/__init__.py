"""Tests of aggregation methods."""
