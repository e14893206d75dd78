from __future__ import annotations

from batonpass.core.ids import AgentId, HolderId
from batonpass.worker import environment

AGENT = AgentId(HolderId("agent-mill"))
RUN = {"BATON_RUN": "r", "BATON_TOKEN": "bat_agt_ofthisrun00"}


def test_a_child_keeps_the_machine_and_its_own_credentials_for_a_model() -> None:
    kept = {
        "PATH": "/usr/bin",
        "HOME": "/srv/pat",
        "TMPDIR": "/srv/scratch",
        "ANTHROPIC_API_KEY": "k",
        "https_proxy": "p",
    }

    assert environment.plain(kept).items() >= kept.items()


def test_what_opens_a_model_is_passed_on_whatever_program_it_is_for() -> None:
    kept = dict.fromkeys(
        (
            "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY CODEX_API_KEY CODEX_HOME"
            " GEMINI_API_KEY GOOGLE_API_KEY OPENROUTER_API_KEY COPILOT_GITHUB_TOKEN COPILOT_PROVIDER_API_KEY"
            " AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GOOGLE_APPLICATION_CREDENTIALS OPENCODE_CONFIG_CONTENT"
        ).split(),
        "k",
    )

    assert environment.plain(kept).items() >= kept.items()


def test_what_acts_for_somebody_at_a_forge_is_not() -> None:
    dropped = (
        "GH_TOKEN GH_PAT GITHUB_TOKEN GITHUB_API_TOKEN HOMEBREW_GITHUB_API_TOKEN GITLAB_ACCESS_TOKEN GLAB_TOKEN"
        " CI_JOB_TOKEN GITEA_TOKEN FORGEJO_TOKEN BITBUCKET_APP_PASSWORD ACTIONS_RUNTIME_TOKEN SYSTEM_ACCESSTOKEN"
        " AZURE_DEVOPS_EXT_PAT"
    ).split()

    assert not environment.plain(dict.fromkeys(dropped, "x")).keys() & set(dropped)


def test_a_worker_that_an_agent_started_hands_nothing_of_that_session_down() -> None:
    dropped = (
        "CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT CODEX_SANDBOX CODEX_SANDBOX_NETWORK_DISABLED"
        " CODEX_THREAD_ID GEMINI_CLI OPENCODE OPENCODE_PID"
    ).split()

    assert not environment.plain(dict.fromkeys(dropped, "1")).keys() & set(dropped)


def test_a_child_gets_nothing_that_points_elsewhere_or_speaks_for_somebody() -> None:
    dropped = (
        "GIT_DIR GIT_INDEX_FILE GIT_AUTHOR_NAME BATON_TOKEN BATON_HOME BATON_SERVER SSH_AUTH_SOCK SUDO_ASKPASS"
        " GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN GITLAB_TOKEN LC_TIME LANGUAGE EDITOR COLORTERM FORCE_COLOR"
        " CLICOLOR_FORCE PWD OLDPWD"
    ).split()

    assert not environment.plain(dict.fromkeys(dropped, "x")).keys() & set(dropped)


def test_one_of_our_tokens_goes_under_whatever_name_it_is_kept() -> None:
    inherited = {"MY_NOTE": "use bat_pat_AAAABBBB", "OTHER": "bat"}

    assert environment.plain(inherited).items() >= {"OTHER": "bat"}.items()
    assert "MY_NOTE" not in environment.plain(inherited)


def test_language_colour_pager_and_prompt_are_fixed() -> None:
    told = environment.plain({"LANG": "de_DE.UTF-8", "TERM": "xterm-256color", "PAGER": "less"})

    assert told == {
        "LC_ALL": "C.UTF-8",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }


def test_the_mark_of_an_outer_run_stays() -> None:
    assert environment.plain({"BATON_RUN_MARK": "outer", "BATON_RUN": "outer"})["BATON_RUN_MARK"] == "outer"


def test_a_child_commits_as_its_agent_and_without_a_persons_key_or_password() -> None:
    told = environment.for_child({"GIT_AUTHOR_NAME": "Pat"}, agent=AGENT, run=RUN)

    assert (
        told.items()
        >= {
            "GIT_AUTHOR_NAME": "agent-mill",
            "GIT_AUTHOR_EMAIL": "agent-mill@localhost",
            "GIT_COMMITTER_NAME": "agent-mill",
            "GIT_COMMITTER_EMAIL": "agent-mill@localhost",
            "GIT_CONFIG_COUNT": "3",
            **RUN,
        }.items()
    )
    settings = {told[f"GIT_CONFIG_KEY_{i}"]: told[f"GIT_CONFIG_VALUE_{i}"] for i in range(3)}
    assert settings == {"commit.gpgSign": "false", "tag.gpgSign": "false", "credential.helper": ""}


def test_our_own_git_writes_under_the_machines_name() -> None:
    told = environment.for_git({"GIT_COMMITTER_NAME": "Pat"})

    assert (told["GIT_AUTHOR_NAME"], told["GIT_COMMITTER_EMAIL"]) == ("Batonpass", "batonpass@localhost")
