"""`continuations chat` in a real terminal: a person, a crash, a second terminal."""

from __future__ import annotations

import signal
from pathlib import Path

from continuations import Runner
from continuations.threads import Thread
from tests.cli.chat_agents import EFFECTS, agent
from tests.cli.command_line import CommandLine
from tests.cli.terminal_process import CTRL_C, CTRL_D, TerminalProcess

APP = "tests.cli.chat_agents:runner"
KEY = "customer 42"
PROMPT = "\n> "
MENU = "[y] Approve  [n] Deny  [a] Answer  [e] Edit  [l] Later: "
BACK = (
    f"Continue at any time: continuations chat support --key 'customer 42' --app {APP}"
)


def chat(cli: CommandLine, *arguments: str) -> TerminalProcess:
    """Open the conversation in a new terminal."""
    words = ("chat", "support", "--key", KEY, "--app", APP, *arguments)
    return TerminalProcess(cli.folder, *words)


def thread(cli: CommandLine) -> Thread[str]:
    """Return the conversation."""
    runner = Runner(agent, store=cli.store)
    return runner.thread("support", key=KEY)


def effects(cli: CommandLine) -> list[str]:
    """Return what the tools did."""
    path: Path = cli.folder / EFFECTS
    return path.read_text().splitlines() if path.exists() else []


def test_reply_is_printed_and_the_next_terminal_shows_the_history(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "good morning")
        terminal.expect("support: You said: good morning")
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert 0 == terminal.wait()
        # The note is wrapped at the width of the terminal.
        assert " ".join(BACK.split()) in " ".join(terminal.text.split())

    with chat(cli) as terminal:
        header = terminal.expect(PROMPT)
        assert "You are kim" in header
        assert "user: good morning\nsupport: You said: good morning" in header
        terminal.enter("/quit")
        assert 0 == terminal.wait()


def test_approval_is_asked_in_line_and_the_approved_call_runs_once(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "refund 500")
        shown = terminal.expect(MENU)
        assert "Approve refund?" in shown
        assert "title: Refund 5.00 EUR" in shown
        assert 'arguments: {"cents":500}' in shown
        assert [] == effects(cli)
        terminal.enter("y fair")
        after = terminal.expect("support: The tool said: refunded 500")
        assert "approval-" not in after
        terminal.expect(PROMPT)

    assert ["refund 500"] == effects(cli)
    run = thread(cli).look()
    assert run is not None
    audit = cli("audit", run.run_id).out
    assert '"verdict": "approve", "by": "kim"' in audit
    assert '"reason": "fair"' in audit
    assert '"door": "cli"' in audit


def test_denial_asks_for_a_reason_and_the_agent_reads_it(cli: CommandLine) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "refund 500")
        terminal.answer(MENU, "n")
        terminal.answer("reason, for the agent (Enter: none): ", "too much")
        terminal.expect("Reason: too much")
        terminal.expect(PROMPT)

    assert [] == effects(cli)


def test_edit_begins_with_the_arguments_and_the_edited_call_runs(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "refund 500")
        terminal.answer(MENU, "e")
        terminal.expect('arguments (JSON): {"cents":500}')
        terminal.type("\x7f" * 4)  # Backspace
        terminal.enter('"much"}')
        terminal.expect("DecisionRefused: ")
        terminal.answer(MENU, "e")
        terminal.expect('arguments (JSON): {"cents":500}')
        terminal.type("\x7f" * 4)
        terminal.enter("300}")
        terminal.expect("refunded 300")
        terminal.expect(PROMPT)

    assert ["refund 300"] == effects(cli)


def test_wait_that_is_left_open_is_asked_again_at_enter_and_keeps_its_order(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "refund 500")
        terminal.answer(MENU, "l")
        terminal.expect("Message 1 has no reply yet.")
        terminal.answer(PROMPT, "when do you open?")
        assert MENU not in terminal.expect("Message 1 has no reply yet.")
        terminal.answer(PROMPT, "")
        terminal.answer(MENU, "y")
        terminal.expect("support: The tool said: refunded 500")
        terminal.expect("support: You said: when do you open?")
        terminal.expect(PROMPT)


def test_questions_are_answered_with_one_line_for_each_field(cli: CommandLine) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "ask_address Jane")
        assert "question: Where does Jane live?" in terminal.expect("street: string")
        terminal.answer(": ", "Main Street")
        terminal.answer("number: integer, required: ", "seven")
        terminal.expect("number must be integer, as JSON. Type it again.")
        terminal.answer("number: integer, required: ", "7")
        terminal.expect('The tool said: {"number":7,"street":"Main Street"}')
        terminal.answer(PROMPT, "ask_colour")
        terminal.answer("Answer: ", "/no I see no colours")
        terminal.expect("I see no colours")
        terminal.expect(PROMPT)


def test_timer_says_what_it_waits_for_and_stop_gives_the_reply_up(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "nap 3")
        terminal.expect("The reply waits for a time since ")
        terminal.answer(PROMPT, "/stop it takes too long")
        terminal.expect("no reply: stopped: it takes too long")
        terminal.answer(PROMPT, "hello")
        terminal.expect("support: You said: hello")
        terminal.expect(PROMPT)


def test_refused_decision_is_shown_and_the_chat_goes_on(cli: CommandLine) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "hire")
        terminal.answer(MENU, "y")
        terminal.expect("DecisionRefused: ")
        terminal.answer(MENU, "l")
        terminal.expect(PROMPT)


def test_ctrl_c_while_the_agent_works_keeps_the_message_and_enter_continues(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "search")
        terminal.expect("searching")
        terminal.type(CTRL_C)
        terminal.expect("stopping: ")
        (cli.folder / "found").touch()
        terminal.expect("The message is stored and has no reply yet.")
        terminal.expect(PROMPT)
        assert ["search"] == effects(cli)
        terminal.enter("")
        terminal.expect("support: The tool said: found it")
        terminal.expect(PROMPT)
        assert 130 == terminal.interrupt()
        assert "Continue at any time: " in terminal.text

    assert ["search"] == effects(cli)


def test_second_ctrl_c_leaves_at_once(cli: CommandLine) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "search")
        terminal.expect("searching")
        terminal.type(CTRL_C)
        terminal.expect("stopping: ")
        terminal.type(CTRL_C)
        terminal.expect("Continue at any time: ")
        (cli.folder / "found").touch()  # so that the thread of the tool ends
        assert 130 == terminal.wait()


def test_next_terminal_goes_on_after_a_kill_and_asks_for_the_approval(
    cli: CommandLine,
) -> None:
    # Given a terminal that is killed while a person thinks about an approval
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "refund 500")
        terminal.expect(MENU)
        terminal.kill()

    # When the conversation is opened again, it asks at once, and is killed in a tool
    with chat(cli) as terminal:
        shown = terminal.expect(MENU)
        assert "user: refund 500" in shown
        terminal.enter("y")
        terminal.expect("support: The tool said: refunded 500")
        terminal.answer(PROMPT, "search")
        terminal.expect("searching")
        terminal.kill()
    (cli.folder / "found").touch()

    # Then the next terminal answers the message, and no effect is repeated
    with chat(cli) as terminal:
        terminal.expect("support: The tool said: found it")
        terminal.expect(PROMPT)
    assert ["refund 500", "search", "search"] == effects(cli)
    texts = [each.get("content") for each in thread(cli).messages()]
    assert 1 == texts.count("search")
    assert 1 == texts.count("The tool said: refunded 500")


def test_reply_is_printed_while_it_is_written_and_once(cli: CommandLine) -> None:
    """A terminal that dies in the middle of a text prints it no second time."""
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "slowly")
        terminal.expect("support: You said:\n  slo")
        terminal.kill()

    with chat(cli) as terminal:
        terminal.expect("support: You said:\n  slo")
        (cli.folder / "found").touch()
        assert "wly" == terminal.expect(PROMPT)
        assert 1 == terminal.text.count("You said:")


def test_two_terminals_see_one_conversation(cli: CommandLine) -> None:
    with chat(cli) as first, chat(cli, "--by", "lee") as second:
        first.expect(PROMPT)
        second.expect(PROMPT)
        first.enter("refund 500")
        first.expect(MENU)
        first.enter("l")
        first.expect(PROMPT)

        # The second one shows what the first one said, and decides
        second.enter("")
        shown = second.expect(MENU)
        assert "user: refund 500" in shown
        second.enter("y")
        second.expect("support: The tool said: refunded 500")
        second.expect(PROMPT)

        # The first one learns who decided
        first.enter("thank you")
        news = first.expect("support: You said: thank you")
        assert "refund: approved by lee" in news
        assert "support: The tool said: refunded 500" in news

    assert ["refund 500"] == effects(cli)


def test_pasted_lines_are_one_message(cli: CommandLine) -> None:
    with chat(cli) as terminal:
        terminal.expect(PROMPT)
        terminal.type("\x1b[200~first line\nsecond line\x1b[201~")
        terminal.enter("")
        terminal.expect("support: You said: first line\n  second line")
        terminal.expect(PROMPT)

    assert "first line\nsecond line" == thread(cli).messages()[0]["content"]


def test_closed_conversation_begins_anew_with_the_next_message(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "hello")
        terminal.answer(PROMPT, "/close")
        assert 0 == terminal.wait()
        assert "The conversation is closed." in terminal.text
        assert "Begin a new one: " in terminal.text

    with chat(cli) as terminal:
        assert "hello" not in terminal.expect(PROMPT)
        terminal.enter("again")
        terminal.expect("support: You said: again")
        terminal.expect(PROMPT)


def test_commands_of_the_chat(cli: CommandLine) -> None:
    with chat(cli, "--history", "1") as terminal:
        terminal.expect(PROMPT)
        for text in ("one", "//two", "/three", "/help", "/history 2"):
            terminal.enter(text)
            terminal.expect(PROMPT)
    assert "support: You said: /two" in terminal.text
    assert "/three is no command. /help lists the commands." in terminal.text
    assert "/stop [WHY]" in terminal.text
    assert "(2 earlier messages; /history 4)\nuser: /two" in terminal.text


def test_file_is_attached_to_the_next_message_only(cli: CommandLine) -> None:
    """The Tab key completes its path, and a wrong path attaches nothing."""
    (cli.folder / "my photo.png").write_bytes(b"PNG")
    (cli.folder / "report.pdf").write_bytes(b"%PDF")
    with chat(cli) as terminal:
        terminal.expect(PROMPT)
        terminal.type("/file my\t")
        terminal.answer("photo.png", "")
        terminal.expect("[image: my photo.png, image/png, 3 bytes]")
        terminal.answer(PROMPT, "/file none.png")
        terminal.expect("/file 'none.png' cannot be read: No such file or directory")
        terminal.answer(PROMPT, "/file report.pdf")
        terminal.answer(PROMPT, "look")
        terminal.expect("support: You said: ")
        # The terminal does not repeat the message that was typed there.
        assert "user: look" not in terminal.expect(PROMPT)
        terminal.enter("again")
        terminal.expect("support: You said: again")
        terminal.expect(PROMPT)

    first, _, second, _ = thread(cli).messages()
    assert ["my photo.png", "report.pdf"] == [
        each["name"] for each in first["content"][1:]
    ]
    assert "again" == second["content"]


def test_error_of_the_model_keeps_the_message(cli: CommandLine) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "fail badly")
        terminal.answer(PROMPT, "/history")
        assert "user: fail badly" in terminal.expect(PROMPT)


def test_sigterm_at_work_suspends_the_reply_and_exits_with_143(
    cli: CommandLine,
) -> None:
    with chat(cli) as terminal:
        terminal.answer(PROMPT, "search")
        terminal.expect("searching")
        terminal.signal(signal.SIGTERM)
        terminal.expect("stopping: ")
        (cli.folder / "found").touch()
        assert 143 == terminal.wait()

    run = thread(cli).look()
    assert run is not None
    assert ("suspended", None) == (run.status, run.run_state.run.claim)
