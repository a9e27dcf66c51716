"""The monitor tells means over its window, reads in a thread, and survives a reading that fails."""

import threading

import pytest

from paceline.devices.contention import ContentionMonitor, ForeignUsage
from paceline.devices.contention.usage import Counters


class FakeReader:
    """A machine of one core, on which others are busy for a ratio of each second from now on."""

    def __init__(self):
        self.at_seconds, self.busy_seconds, self.num_reads = 0.0, 0.0, 0

    def let_pass(self, seconds, cpu_ratio):
        self.at_seconds += seconds
        self.busy_seconds += cpu_ratio * seconds

    def __call__(self):
        self.num_reads += 1
        return Counters(self.at_seconds, self.at_seconds, self.busy_seconds, 0, 0)


def test_the_mean_is_over_the_last_minute():
    read = FakeReader()
    monitor = ContentionMonitor(read)
    for second in range(200):
        read.let_pass(1, 1.0 if second < 170 else 0.5)
        monitor.read()
    assert monitor.usage().cpu_ratio == pytest.approx(0.75)
    assert len(monitor._readings) == 61


def test_the_thread_reads_and_ends():
    read, has_read = FakeReader(), threading.Event()

    def reading():
        if read.num_reads == 3:
            has_read.set()
        if read.num_reads == 2:
            read.num_reads += 1
            raise OSError("gone for a moment")
        return read()

    with ContentionMonitor(reading, interval_seconds=0.001) as monitor:
        assert has_read.wait(10)
        assert monitor.usage() == ForeignUsage()
    num_reads = read.num_reads
    assert not [thread for thread in threading.enumerate() if thread.name == "contention"]
    monitor.read()
    assert read.num_reads == num_reads + 1
