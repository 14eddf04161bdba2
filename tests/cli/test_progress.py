"""Progress: what a line says, how long the rest will take, plain lines where there is no terminal."""

from __future__ import annotations

import io
import threading

import pytest

from roleagent_lite.cli.progress import EVERY, Clock, Screen, line
from roleagent_lite.types import Progress


class Time:
    """A clock that tests move by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_line_says_stage_success_money_and_time() -> None:
    event = Progress("train", 6, 24, 3, 0.25, "round 2")
    words = "playing training tasks · 6/24 · solved 50 % · $0.25 · about 1 min 30 s left · round 2"
    assert line(event, 90.0) == words
    assert line(event, 90.0, bound=True) == words.replace("about", "at most")


def test_what_is_unknown_is_left_out() -> None:
    assert line(Progress("dev", 0, 4), None) == "scoring on dev tasks · 0/4"
    assert line(Progress("strange"), None) == "strange"
    assert "solved" not in line(Progress("download", 40, 93), 3.0)
    assert "left" not in line(Progress("test", 4, 4, 1), 0.0)


def test_time_left_comes_from_the_pace_so_far() -> None:
    time = Time()
    clock = Clock(now=time)
    assert clock.left(Progress("train", 0, 10)) is None
    time.at += 20
    assert clock.left(Progress("train", 2, 10)) == pytest.approx(80)
    assert clock.left(Progress("train", 2, 10, note="odd")) == pytest.approx(80)  # heard twice, counted once
    assert clock.left(Progress("diagnose", 1, 4)) is None  # no episodes
    time.at += 10
    assert clock.left(Progress("train", 1, 10)) == pytest.approx(90)  # the next round: 3 episodes in 30 s


def test_time_left_of_the_whole_job_where_its_size_is_known() -> None:
    time = Time()
    clock = Clock(planned=20, now=time)
    time.at += 8
    assert clock.left(Progress("train", 4, 4)) == pytest.approx(32)
    time.at += 2
    assert clock.left(Progress("dev", 1, 4)) == pytest.approx(30)
    for done in (2, 3, 4):
        time.at += 2
        clock.left(Progress("dev", done, 4))
    assert clock.left(Progress("test", 12, 13)) == pytest.approx(16 / 20)  # never less than the stage's rest


def test_steps_of_training_have_a_pace_of_their_own_each_time() -> None:
    time = Time()
    clock = Clock(now=time)
    for begun, pace in ((0, 4), (10, 2)):
        for done in range(begun, begun + 10):
            time.at += 1
            playing = clock.left(Progress("train", done + 1, 100))
        assert playing == pytest.approx(90 - begun)
        for step in range(1, 6):
            time.at += pace
            found = clock.left(Progress("learn", step, 20))
        assert found == pytest.approx(15 * pace)
        time.at += 7
        assert clock.left(Progress("update", 1, 2)) is None


def test_a_resumed_training_is_paced_by_the_steps_it_makes_itself() -> None:
    time = Time()
    clock = Clock(now=time)
    time.at += 25  # loading
    found = []
    for step in range(11, 15):
        time.at += 10
        found.append(clock.left(Progress("learn", step, 40)))
    assert found == [None, pytest.approx(280), pytest.approx(270), pytest.approx(260)]


def test_what_happens_once_is_no_part_of_the_pace() -> None:
    time = Time()
    clock = Clock(now=time)
    for stage in ("download", "load", "resume"):
        time.at += 600
        assert clock.left(Progress(stage, 1, 1)) is None
    for done in (1, 2):
        time.at += 10
        assert clock.left(Progress("train", done, 10)) == pytest.approx(10 * (10 - done))


def test_time_between_episodes_is_time_that_they_take() -> None:
    """A failure that is read, a prompt that is rewritten: as often in the rest of the job as so far."""
    time = Time()
    clock = Clock(planned=8, now=time)
    for stage in ("train", "dev"):
        time.at += 1
        found = clock.left(Progress(stage, 1, 1))
        time.at += 3
        assert clock.left(Progress("reflect")) is None
    assert found == pytest.approx(6 * 5 / 2)


def test_what_a_resume_read_from_the_run_does_not_make_the_rest_look_short() -> None:
    time = Time()
    clock = Clock(now=time)
    for done in range(1, 101):  # read, not played
        clock.left(Progress("train", done, 200))
    for done in range(101, 161):
        time.at += 10
        found = clock.left(Progress("train", done, 200))
    assert found == pytest.approx(400)


def test_plain_lines_are_few() -> None:
    time, out = Time(), io.StringIO()
    with Screen(out=out, now=time) as screen:
        for done in range(1, 100):
            time.at += 1
            screen.listen(Progress("train", done, 100))
        screen.listen(Progress("train", 100, 100, note="an odd environment"))
        screen.listen(Progress("dev", 0, 4))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + 98 // int(EVERY) + 2
    assert lines[0].startswith("playing training tasks · 1/100")
    assert "an odd environment" in lines[-2] and lines[-1].startswith("scoring on dev")


def test_the_loss_of_each_step_is_no_line_of_its_own() -> None:
    time, out = Time(), io.StringIO()
    with Screen(out=out, now=time) as screen:
        for step in range(1, 41):
            time.at += 1
            screen.listen(Progress("learn", step, 40, note=f"loss {1 / step:.4f}"))
        for update in (1, 2):
            screen.listen(Progress("update", update, 6, note=f"solved 0.{update}"))
    lines = out.getvalue().splitlines()
    assert lines[0] == "training · 1/40 · loss 1.0000"
    assert "training · 31/40 · about 9 s left · loss 0.0323" in lines
    assert len(lines) == 1 + 38 // int(EVERY) + 1 + 2 and lines[-1] == "updated · 2/6 · solved 0.2"


def test_the_plan_is_printed_as_it_is() -> None:
    out = io.StringIO()
    with Screen(out=out) as screen:
        screen.plan(7)
        screen.listen(Progress("estimate", note="  agent 12 calls\nplanned at most 12 calls: free"))
    assert out.getvalue() == "  agent 12 calls\nplanned at most 12 calls: free\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_models_words_are_no_markup() -> None:
    out = Terminal()
    with Screen(out=out) as screen:
        screen.listen(Progress("estimate", note="[bold]plan[/bold] [/]"))
        screen.listen(Progress("train", 1, 2, note="[red]x[/nothing]"))
    assert "[bold]plan[/bold] [/]" in out.getvalue()


def test_events_may_come_from_any_thread() -> None:
    out = io.StringIO()
    with Screen(out=out) as screen:

        def play() -> None:
            for i in range(10):
                screen.listen(Progress("train", i, 9))

        crew = [threading.Thread(target=play) for _ in range(4)]
        for member in crew:
            member.start()
        for member in crew:
            member.join()
    assert all(text.startswith("playing training tasks") for text in out.getvalue().splitlines())


def test_notes_of_servers_steer_no_terminal_and_make_no_lines() -> None:
    out = io.StringIO()
    with Screen(out=out) as screen:
        screen.listen(Progress("estimate", note="model \x1b]0;own\x07 costs"))
        screen.listen(Progress("train", 1, 2, note="busy\x1b[2J\n\x9b1mroleagent-lite: all is well\u202e"))
    said = out.getvalue()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said) and len(said.splitlines()) == 2


def test_the_first_event_is_told_once() -> None:
    told: list[int] = []
    with Screen(out=io.StringIO()) as screen:
        screen.first = lambda: told.append(1)
        for number in range(3):
            screen.listen(Progress("train", number, 3))
    assert told == [1]
