"""However a conversation is cut, a model can be sent what is left, and the newest question is in it."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from softhit.errors import HierarchyError, InvalidInput, SegmentTooLarge
from softhit.hierarchy.allocator import Start
from softhit.hierarchy.messages import message_segments, message_text, selected
from softhit.hierarchy.tokens import make_counter
from tests.softhit.hierarchy.stand_ins import Run, WordsL2, allocator, text_of, words

messages = pytest.importorskip("langchain_core.messages")


def system(text: str = "be brief", id: str | None = None) -> Any:
    return messages.SystemMessage(text, id=id)


def user(text: str, id: str | None = None) -> Any:
    return messages.HumanMessage(text, id=id)


def says(text: str, id: str | None = None) -> Any:
    return messages.AIMessage(text, id=id)


def calls(*ids: str, id: str | None = None) -> Any:
    made = [{"name": "look", "args": {"q": x}, "id": x} for x in ids]
    return messages.AIMessage("", tool_calls=made, id=id)


def result(call: str, text: str = "found", id: str | None = None) -> Any:
    return messages.ToolMessage(text, tool_call_id=call, id=id)


def segments(conversation: Any, budget: int | None = None) -> list[Any]:
    return message_segments(conversation, make_counter(words), lambda text: text, budget)


def fault(conversation: list[Any]) -> str:
    """What a model's interface would refuse: a result without a call before it, a call passed over."""
    waiting: list[str] = []
    for message in conversation:
        if message.type == "tool":
            if message.tool_call_id not in waiting:
                return f"result of {message.tool_call_id} without its call"
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            return f"call {waiting[0]} without its result"
        waiting = [call["id"] for call in getattr(message, "tool_calls", ())]
    return ""


@st.composite
def conversations(draw: Any) -> list[Any]:
    """Turns of a user, each with answers and with rounds of tool calls; the last round may be open."""
    talk = [system()] if draw(st.booleans()) else []
    number = 0
    for turn in range(draw(st.integers(1, 5))):
        talk.append(user(text_of(draw(st.integers(1, 20)), f"question{turn}"), f"u{turn}"))
        for _ in range(draw(st.integers(0, 2))):
            ids = [f"c{number + i}" for i in range(draw(st.integers(1, 3)))]
            number += len(ids)
            talk.append(calls(*ids, id=f"calls {ids[0]}"))
            size = draw(st.integers(1, 12))
            talk += [result(c, text_of(size, "found"), f"r{c}") for c in draw(st.permutations(ids))]
        if draw(st.booleans()):
            talk.append(says(text_of(draw(st.integers(1, 20)), f"answer{turn}"), f"a{turn}"))
    return talk


class TestOneMessage:
    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (lambda: user("hello"), "user: hello"),
            (lambda: system("be kind"), "system: be kind"),
            (lambda: calls("c1"), 'assistant: \ncalls look {"q": "c1"}'),
            (lambda: messages.ToolMessage("42", tool_call_id="c1", name="look"), "tool look: 42"),
            (
                lambda: messages.HumanMessage(["see", {"type": "text", "text": "this"}]),
                "user: see\nthis",
            ),
        ],
    )
    def test_is_a_text_with_its_role_and_its_calls(self, message: Any, text: str) -> None:
        assert message_text(message()) == text

    def test_has_an_image_in_its_text(self) -> None:
        image = {"type": "image_url", "image_url": {"url": "x"}}
        assert message_text(messages.HumanMessage([image])).endswith('"type": "image_url"}')

    def test_keeps_its_id_when_others_before_it_go(self) -> None:
        talk = [user("one"), says("two"), user("three", "own")]
        assert segments(talk)[2].id == segments(talk[2:])[0].id == "message:own"
        assert segments(talk)[1].id == segments(talk[1:])[0].id

    def test_and_its_double_have_ids_of_their_own(self) -> None:
        made = segments([user("yes"), says("no"), user("yes")])
        assert len({s.id for s in made}) == 3

    def test_no_two_messages_have_one_id_whatever_theirs_are(self) -> None:
        made = segments([user("first", "1"), user("second", "1"), user("third", "1.2"), user("fourth", "1")])
        assert [one.id for one in made] == ["message:1", "message:1.2", "message:1.2.2", "message:1.3"]

    def test_an_id_that_no_checkpoint_could_hold_is_not_taken_over(self) -> None:
        one, other = segments([user("a", id="\ud800"), user("a", id="\ud801")])
        assert one.id != other.id == segments([user("b", id="\ud801")])[0].id
        assert one.id.isascii()

    @pytest.mark.parametrize("conversation", [None, 5, "hello"])
    def test_of_what_is_no_conversation_are_refused(self, conversation: Any) -> None:
        with pytest.raises(InvalidInput, match="messages must be a list of messages of LangChain, got"):
            segments(conversation)

    def test_above_the_budget_raises_and_names_it(self) -> None:
        with pytest.raises(SegmentTooLarge, match="'message:long' has 31 tokens"):
            segments([user(text_of(30), "long"), says("short")], budget=30)

    def test_is_counted_with_the_tokenizer_not_by_its_characters(self) -> None:
        # 12 characters; at four a token they would be 3
        text = "東京都の天気はどうですか"
        counter = make_counter("o200k_base")
        made = message_segments([user(text)], counter, lambda t: t)
        assert made[0].tokens == counter.count(f"user: {text}")
        assert made[0].tokens > len(text) / 4


class TestGroupsAndPins:
    def test_a_call_and_its_results_are_one_group(self) -> None:
        made = segments([user("q"), calls("c1", "c2", id="k"), result("c1"), result("c2"), says("a")])
        assert [s.group is not None for s in made] == [False, True, True, True, False]
        assert len({s.group for s in made}) == 2

    def test_a_call_id_used_twice_belongs_to_the_last_call_before(self) -> None:
        made = segments([calls("c", id="1"), result("c"), user("q"), calls("c", id="2"), result("c")])
        assert made[0].group == made[1].group != made[3].group == made[4].group

    def test_pinned_are_system_messages_the_newest_question_and_the_end(self) -> None:
        talk = [system(), user("old"), says("x"), user("new"), calls("c"), result("c"), says("end")]
        assert [s.pinned for s in segments(talk)] == [True, False, False, True, False, False, True]

    def test_an_open_round_of_calls_is_pinned_whole(self) -> None:
        talk = [user("new"), calls("c", "d"), result("c")]
        assert [s.pinned for s in segments(talk)] == [True, True, True]

    def test_of_an_empty_conversation_there_are_none(self) -> None:
        assert segments([]) == []
        assert selected([], [], (), ()) == []


class TestSelecting:
    @given(conversations(), st.data())
    def test_never_leaves_an_orphaned_result_or_an_unanswered_call(self, talk: Any, data: Any) -> None:
        assert fault(talk) == ""
        made = segments(talk)
        held = {s.id for s in made if data.draw(st.booleans())}
        left = selected(talk, made, held, {s.id for s in made})
        assert fault(left) == ""
        inside = {s.id for s in segments(left)}
        assert inside <= held
        position = {id(m): i for i, m in enumerate(talk)}
        assert [position[id(m)] for m in left] == sorted(position[id(m)] for m in left)

    def test_of_a_broken_conversation_leaves_out_what_no_model_accepts(self) -> None:
        talk = [result("lost"), user("q"), calls("c1"), user("again"), calls("c2"), result("c2"), says("a")]
        made = segments(talk)
        left = selected(talk, made, {s.id for s in made}, ())
        assert [message_text(m) for m in left] == [
            "user: q",
            "user: again",
            'assistant: \ncalls look {"q": "c2"}',
            "tool: found",
            "assistant: a",
        ]

    def test_keeps_what_no_boundary_has_seen_yet(self) -> None:
        talk = [user("old", "1"), says("older", "2"), user("new", "3")]
        made = segments(talk)
        assert selected(talk, made, {"message:2"}, {"message:1", "message:2"}) == talk[1:]


def converse(one: Run, talk: list[Any], node: str = "chat") -> list[Any]:
    view = one.view(node)
    left = view.messages(talk)
    one.report(view)
    return list(left)


class TestAConversationInL1:
    @given(conversations(), st.integers(40, 120))
    @settings(max_examples=60)
    def test_always_fits_is_valid_and_has_the_newest_question(self, talk: Any, budget: int) -> None:
        one = Run(allocator(WordsL2(), budget=budget))
        one.cross(Start("chat"))
        for end in range(1, len(talk) + 1):
            before = one.context
            converse(one, talk[:end])
            try:
                one.cross(Start("chat"))
            except HierarchyError:
                made = segments(talk[:end])
                assert sum(s.tokens for s in made if s.pinned) > budget
                assert one.context is before
                return
            left = one.view("chat").messages(talk[:end])
            assert left
            assert fault(left[:-1] if getattr(left[-1], "tool_calls", ()) else left) in (
                "",
                fault(talk[:end]),
            )
            assert [m for m in talk[:end] if m.type == "human"][-1:] == [
                m for m in left if m.type == "human"
            ][-1:]
            assert sum(segments([m])[0].tokens for m in left) <= budget

    def test_lets_the_oldest_go_first_and_they_can_be_found_in_l2(self) -> None:
        one = Run(allocator(WordsL2(), policy="fifo", budget=60))
        one.cross(Start("chat"))
        talk: list[Any] = []
        for turn in range(6):
            talk += [
                user(text_of(8, f"question{turn}"), f"u{turn}"),
                says(text_of(8, f"answer{turn}"), f"a{turn}"),
            ]
            converse(one, talk)
            one.cross(Start("chat"))
        left = [m.id for m in one.view("chat").messages(talk)]
        assert left == [m.id for m in talk][-len(left) :]
        assert 2 <= len(left) < 12
        assert "message:u0" in one.allocator.cache.rows  # type: ignore[attr-defined]
        assert one.view("chat").search("question0")[0].segment.id == "message:u0"

    def test_a_message_above_the_budget_raises_in_the_node_and_the_context_stays(self) -> None:
        one = Run(allocator(WordsL2(), budget=50))
        one.cross(Start("chat"))
        talk = [user("short", "1")]
        converse(one, talk)
        one.cross(Start("chat"))
        with pytest.raises(SegmentTooLarge, match="'message:2' has 61 tokens, more than the whole budget"):
            converse(one, [*talk, user(text_of(60), "2")])
        one.cross(Start("chat"))
        assert one.held() == ["message:1"]

    def test_pins_above_the_budget_raise_instead_of_emptying_the_context(self) -> None:
        one = Run(allocator(WordsL2(), budget=50))
        one.cross(Start("chat"))
        talk = [system(text_of(30), "s"), user(text_of(30), "u")]
        converse(one, talk)
        with pytest.raises(HierarchyError, match="pinned segments have 62 tokens"):
            one.cross(Start("chat"))

    def test_the_newest_question_stays_whatever_else_is_needed(self) -> None:
        l2 = WordsL2({f"d{i}": text_of(30, "topic", f"d{i}") for i in range(5)})
        one = Run(allocator(l2, top_k=5))
        one.cross(Start("chat"))
        talk = [user(text_of(30, "question"), "u")]
        converse(one, talk)
        for _ in range(4):
            one.cross(Start("chat", "topic"))
            assert "message:u" in one.held()
        assert one.view("chat").messages(talk) == talk

    def test_a_question_that_is_no_longer_the_newest_may_leave(self) -> None:
        one = Run(allocator(WordsL2()))
        one.cross(Start("chat"))
        talk = [user("first", "1")]
        converse(one, talk)
        one.cross(Start("chat"))
        assert one.context["l1"]["message:1"]["pinned"]
        converse(one, [*talk, says("a", "2"), user("second", "3")])
        one.cross(Start("chat"))
        assert not one.context["l1"]["message:1"]["pinned"]
        assert one.context["l1"]["message:3"]["pinned"]

    def test_a_message_that_was_removed_or_edited_is_followed(self) -> None:
        one = Run(allocator(WordsL2()))
        one.cross(Start("chat"))
        talk = [user("first", "1"), says("second", "2"), user("third", "3")]
        converse(one, talk)
        one.cross(Start("chat"))
        edited = [user("first", "1"), user("third and more", "3")]
        converse(one, edited)
        one.cross(Start("chat"))
        assert one.held() == ["message:1", "message:3"]
        assert one.view().peek("message:3") == "user: third and more"

    def test_an_evicted_message_does_not_come_back_at_the_next_turn(self) -> None:
        one = Run(allocator(WordsL2(), budget=40, policy="fifo"))
        one.cross(Start("chat"))
        talk = [user(text_of(14), "1"), says(text_of(14), "2"), user(text_of(14), "3")]
        for end in (1, 2, 3):
            converse(one, talk[:end])
            one.cross(Start("chat"))
        gone = {"message:1", "message:2"} - set(one.held())
        assert gone
        converse(one, talk)
        one.cross(Start("chat"))
        assert not gone & set(one.held())
