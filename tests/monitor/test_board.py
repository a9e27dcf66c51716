"""What can be said of a run at a moment."""

from paceline.monitor.board import Board
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted
from paceline.topologies.parallel.events import (
    RoundClosed,
    RoundOpened,
    ShardsAdded,
    ShardsTaken,
    UpdateAccepted,
    UpdateAudited,
    UpdateRefused,
)
from tests.monitor.synthetic import FakeLearner, run_events


def board_of(*events):
    board = Board()
    for event in events:
        board.tell(event)
    return board


OPENED = RoundOpened(at=10, round=1, deadline_seconds=2, num_learners=1)
JOINED = LearnerJoined(at=1, learner="pi")
TAKEN = ShardsTaken(at=10.1, round=1, learner="pi", num_shards=3, seconds=0.1)


def closed(*late):
    return RoundClosed(
        at=12, round=1, seconds=2, truancy=0, num_learners=1, num_updates=0, num_samples=0, num_shards=3, late=late
    )


def test_phases_that_are_told():
    events = [
        PhaseStarted(at=10.1 + at, learner="pi", round=1, phase=phase)
        for at, phase in ((0, "download"), (0.5, "train"))
    ]
    seat = board_of(JOINED, OPENED, events[0], TAKEN, events[1]).seats["pi"]
    assert (seat.status, seat.num_shards, seat.origin) == ("training", 3, 10)
    assert [seat.stretch_at(at) for at in (10.0, 10.2, 10.7)] == [None, "download", "train"]


def test_phases_that_are_not_told():
    board = board_of(JOINED, OPENED, TAKEN)
    assert board.seats["pi"].status == "working"
    board.tell(UpdateAccepted(at=11.5, round=1, learner="pi", num_samples=96, seconds=1.5))
    seat = board.seats["pi"]
    assert (seat.status, seat.num_samples) == ("idle", 96)
    assert [seat.stretch_at(at) for at in (11, 11.6)] == ["working", "idle"]


def test_further_shards_are_added_in_their_round():
    def added(number):
        return ShardsAdded(at=11, round=number, learner="pi", num_shards=2, seconds=1)

    seat = board_of(JOINED, OPENED, TAKEN, added(1), added(2)).seats["pi"]
    assert (seat.status, seat.num_shards) == ("working", 5)


def test_a_benchmark_has_a_bar_of_its_own():
    seat = board_of(JOINED, PhaseStarted(at=1.5, learner="pi", round=0, phase="benchmark")).seats["pi"]
    assert (seat.status, seat.origin) == ("benchmarking", 1.5)


def test_a_cheat_is_bad_news_and_an_honest_audit_is_none():
    def audited(is_honest, number=1, learner="pi"):
        return UpdateAudited(at=11.9, round=number, learner=learner, is_honest=is_honest, distance=0.9)

    came = UpdateAccepted(at=11.5, round=1, learner="pi", num_samples=96, seconds=1.5)
    honest = board_of(JOINED, OPENED, TAKEN, came, audited(True))
    assert (honest.seats["pi"].status, list(honest.messages)) == ("idle", [])
    exposed = board_of(JOINED, OPENED, TAKEN, came, audited(False))
    assert (exposed.seats["pi"].status, exposed.seats["pi"].is_trouble) == ("cheated", True)
    assert "update of pi is a cheat" in exposed.messages[0]
    of_another_round = board_of(JOINED, OPENED, TAKEN, came, audited(False, 2), audited(False, learner="stranger"))
    assert of_another_round.seats["pi"].status == "idle"
    assert list(of_another_round.seats) == ["pi"]


def test_bad_news_stays_until_the_next_round():
    late = UpdateRefused(at=12.2, round=1, learner="pi", reason="late", seconds=2.2, is_late=True)
    idle = PhaseStarted(at=12.3, learner="pi", round=1, phase="idle")
    board = board_of(JOINED, OPENED, TAKEN, closed("pi"))
    assert (board.seats["pi"].status, board.seats["pi"].is_trouble) == ("late", True)
    for event in (late, idle):
        board.tell(event)
        assert board.seats["pi"].status == "late"
    board.tell(RoundOpened(at=13, round=2, deadline_seconds=2, num_learners=1))
    board.tell(ShardsTaken(at=13.1, round=2, learner="pi", num_shards=3, seconds=0.1))
    board.tell(PhaseStarted(at=13.1, learner="pi", round=2, phase="train"))
    assert (board.seats["pi"].status, board.seats["pi"].is_trouble) == ("training", False)


def test_refused_and_gone_say_why():
    board = board_of(
        JOINED, OPENED, TAKEN, UpdateRefused(at=11, round=1, learner="pi", reason="not\nfinite", seconds=1)
    )
    assert board.seats["pi"].status == "refused: not\\nfinite"
    board.tell(LearnerLeft(at=12, learner="pi", reason="goodbye"))
    assert (board.seats["pi"].status, board.seats["pi"].gone_at) == ("gone: goodbye", 12)
    assert list(board.messages) == ["round 1: update of pi refused: not\\nfinite", "pi left: goodbye"]
    board.tell(LearnerJoined(at=13, learner="pi", is_back=True))
    assert (board.seats["pi"].status, board.seats["pi"].gone_at) == ("idle", None)


def test_strangers_get_no_seat():
    stranger = UpdateRefused(at=11, round=1, learner="mallory", reason="unknown learner", seconds=1)
    board = board_of(OPENED, stranger, LearnerLeft(at=12, learner="eve", reason="goodbye"))
    assert board.seats == {}
    assert len(board.messages) == 2


def test_results_of_rounds():
    board = board_of(*run_events(rounds=30))
    assert len(board.accuracies) == 20
    assert (board.num_rounds, board.round, board.ended.rounds) == (30, 30, 30)
    assert board.num_samples == sum(
        event.num_samples for event in run_events(rounds=30) if isinstance(event, RoundClosed)
    )


def test_trouble_is_shown_first_and_those_long_gone_last():
    fleet = [FakeLearner(name=f"d{i:02}", shards_per_second=9, dies_in=1 if i < 5 else None) for i in range(50)]
    fleet[40] = FakeLearner(name="d40", shards_per_second=9, refused_in=(3,))
    events = run_events(fleet, rounds=3, is_ended=False)
    shown = [seat.name for seat in board_of(*events).most_interesting(10)]
    orders = [board_of(*events).seats[name].order for name in shown]
    assert len(shown) == 10
    assert "d40" in shown
    assert not {"d00", "d01", "d02", "d03", "d04"} & set(shown)
    assert orders == sorted(orders)
    assert len(board_of(*events).most_interesting(100)) == 50
