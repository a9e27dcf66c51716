"""Programs beside an experiment: asked, they answer; ended, they are told of."""

import pytest

from paceline.errors import PacelineError
from reproduction.companions import started

PROGRAM = """
import asyncio, os, sys
from reproduction.companions import answer_all

async def answer(*, number, divisor=1):
    await asyncio.sleep(0)
    return {"quotient": number / divisor, "colour": os.environ["COLOUR"]}

asyncio.run(answer_all(answer))
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_questions_are_answered_one_by_one(program):
    with started(program, prefix=["env", "COLOUR=red"], environment={"COLOUR": "blue"}) as companion:
        assert companion.process_id > 0
        assert companion.ask(number=6) == {"quotient": 6, "colour": "red"}
        assert companion.ask(number=6, divisor=4) == {"quotient": 1.5, "colour": "red"}


def test_one_that_ends_is_an_error(program, capfd):
    with started(program, environment={"COLOUR": "blue"}) as companion:
        for _ in range(2):
            with pytest.raises(PacelineError, match=r"program.py ended with 1$"):
                companion.ask(number=1, divisor=0)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_the_program_is_ended_with_the_block(program):
    with pytest.raises(KeyError), started(program) as companion:
        raise KeyError
    assert companion._process.returncode is not None
