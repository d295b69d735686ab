"""The stand-in for a language model, and what the demo agent reads."""

import asyncio
import json
from pathlib import Path

import pytest

from softhit.errors import InvalidInput
from softhit_lab.hierarchy.library import open_library, reference_library
from softhit_lab.hierarchy.standin import answer, make_standin, pick, sentences

PROMPT = (
    "Answer in at most 2 lines.\nQuestion: Where did the cat sit?\n"
    "[ctx:a] The cat sat on the red mat all day. Nobody saw what else happened.\n"
    "[ctx:b] Stocks fell sharply on Monday morning.\n"
    "[ctx:c] Later the cat went to sit under a table.\n"
)


class TestPicking:
    def test_every_line_is_a_sentence_of_the_passage_whose_tag_it_carries(self) -> None:
        lines = answer(PROMPT).splitlines()
        assert lines == [
            "Later the cat went to sit under a table. [ctx:c]",
            "The cat sat on the red mat all day. [ctx:a]",
        ]

    def test_what_has_nothing_to_do_with_the_question_is_not_quoted(self) -> None:
        assert "Stocks" not in answer(PROMPT.replace("at most 2", "at most 3"))

    def test_a_sentence_that_stands_twice_is_quoted_once(self) -> None:
        text = "The cat sat on the red mat all day."
        assert pick("the cat", {"a": text, "b": text}, 5) == [(text, "a")]

    def test_an_empty_context_is_said_to_be_empty(self) -> None:
        assert answer("Question: Why?") == "Nothing in the context says so."

    def test_a_passage_that_speaks_of_tags_of_others_is_not_cut(self) -> None:
        assert answer("Question: cat?\n[ctx:note/1] The cat sat on the mat (with/5).").endswith(
            "[ctx:note/1]"
        )

    def test_drawn_tables_and_fragments_are_no_sentences(self) -> None:
        assert sentences("Yes. | a | b | +-----+-----+ | c | ========= |") == []


class TestTheChatModel:
    @pytest.fixture(autouse=True)
    def _needs_langchain(self) -> None:
        pytest.importorskip("langchain_core")

    def test_answers_alike_however_it_is_called(self) -> None:
        model = make_standin()
        wanted = answer(PROMPT)
        assert model.invoke(PROMPT).text == wanted
        assert "".join(str(chunk.text) for chunk in model.stream(PROMPT)) == wanted
        assert asyncio.run(model.ainvoke(PROMPT)).text == wanted
        assert [reply.text for reply in model.batch([PROMPT, PROMPT])] == [wanted, wanted]

        async def streamed() -> str:
            return "".join([str(chunk.text) async for chunk in model.astream(PROMPT)])

        assert asyncio.run(streamed()) == wanted

    def test_takes_messages_and_pipes_into_other_parts_of_langchain(self) -> None:
        from langchain_core.output_parsers import StrOutputParser

        system, human = PROMPT.split("\n", 1)
        chain = make_standin() | StrOutputParser()
        assert chain.invoke([("system", system), ("human", human)]) == answer(PROMPT)


class TestTheLibrary:
    def test_ids_are_unique_and_every_passage_has_a_source(self) -> None:
        library = reference_library()
        assert len({d.id for d in library.documents}) == len(library.documents)
        assert all(d.url.startswith("pydoc:") and d.text for d in library.documents)
        assert all(q.text != q.again for q in library.questions)

    def test_a_conversation_becomes_turns_and_questions_with_their_evidence(self, tmp_path: Path) -> None:
        turns = [{"speaker": "Ann", "dia_id": f"D1:{n}", "text": f"Line {n}."} for n in (1, 2, 3)]
        asked = [
            {"question": "What is line 2?", "category": 4, "evidence": ["D1:2"]},
            {"question": "What is line 9?", "category": 5, "evidence": ["D1:3"]},
            {"question": "No evidence?", "category": 4, "evidence": []},
        ]
        sample = {"sample_id": "x", "conversation": {"session_1": turns}, "qa": asked}
        file = tmp_path / "own.json"
        file.write_text(json.dumps([sample]))
        library = open_library(file)
        assert [(d.id, d.text) for d in library.documents] == [
            (f"D1:{n}", f"Ann: Line {n}.") for n in (1, 2, 3)
        ]
        assert [(q.text, q.evidence) for q in library.questions] == [("What is line 2?", ("D1:2",))]

    def test_the_real_conversation_has_evidence_for_every_question(self, data_dir: Path) -> None:
        library = open_library(data_dir / "locomo" / "locomo10.json", 5)
        known = {d.id for d in library.documents}
        assert len(library.questions) == 5
        assert all(q.evidence and known.issuperset(q.evidence) for q in library.questions)

    @pytest.mark.parametrize("name", ["trace.parquet", "text.txt"])
    def test_other_files_are_refused_with_their_name(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=f"data must be a LoCoMo .json file, got '{name}'"):
            open_library(Path(name))
