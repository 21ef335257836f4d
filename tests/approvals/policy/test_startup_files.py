"""The files that take effect by themselves: one table for edits, commands, the kernel and the review."""

import pytest

from approvals.policy import classify, default_policy, load_policy
from approvals.policy.paths import is_protected
from approvals.policy.shell_words import names
from workspaces.envelope.sensitive_names import takes_effect
from workspaces.envelope.startup_files import rows

POLICY = load_policy(default_policy())
PATHS = sorted({path.replace("*", "x") for _, paths, _ in rows() for path in paths})
# Named by people who attacked the gate, and some brothers of each.
ASKED_FOR = sorted(
    names(
        """
        .zed/settings.json .amp/settings.json .roo/mcp.json .junie/mcp/mcp.json .windsurf/hooks.json
        .factory/mcp.json .continue/config.yaml .trae/mcp.json .agents/skills/x/SKILL.md
        .claude-plugin/plugin.json shop.code-workspace .gitlab-ci.yml .circleci/config.yml
        .gitea/workflows/a.yml .forgejo/workflows/a.yml .buildkite/pipeline.yml Jenkinsfile
        .github/actions/x/action.yml .github/CODEOWNERS CODEOWNERS .pre-commit-config.yaml lefthook.yml
        .cargo/config.toml .npmrc mise.toml .exrc .dir-locals.el .yarn/releases/yarn.cjs
        .venv/lib/python3.11/site-packages/x.pth sitecustomize.py .config/systemd/user/x.service
        .config/autostart/x.desktop azure-pipelines.yml bitbucket-pipelines.yml .drone.yml .woodpecker.yml
        .travis.yml appveyor.yml .cirrus.yml .teamcity/settings.kts .tekton/a.yaml .semaphore/semaphore.yml
        gradlew gradle/wrapper/gradle-wrapper.properties .mvn/extensions.xml .bazelrc
        .gitattributes .ssh/config .nvim.lua .helix/languages.toml x.sublime-project .devcontainer.json
        .idx/dev.nix .clinerules/hooks/a .hg/hgrc .jj/repo/config.toml .screwdriver.yaml .hg .sl/config
        .mise.prod.toml mise.dev.toml .pnp.cjs pnpm-workspace.yaml rust-toolchain.toml tools/bazel
        .bazelversion bamboo-specs/bamboo.yml ci/build.gitlab-ci.yml .vela.yml .prow.yaml .taskcluster.yml
        .packit.yaml netlify.toml vercel.json amplify.yml .ebextensions/a.config .upsun/config.yaml devfile.yaml
        codebuff.json conductor.json .mux/init mcp_config.json .latexmkrc .user.ini jupyter_server_config.py
        .externalToolBuilders/a.launch CMakeLists.txt.user .hooks/pre-commit .git-templates/hooks/a login.sql
        """
    )
)
ORDINARY = sorted(
    names(
        """
        Makefile justfile Taskfile.yml package.json pyproject.toml conftest.py Dockerfile compose.yaml
        .gitignore .editorconfig .prettierrc .eslintrc.js tsconfig.json README.md AGENTS.md CLAUDE.md
        .cursorrules build.gradle pom.xml Cargo.toml best.pth src/mcp.py setup.cfg .dockerignore .nvmrc
        .tool-versions docs/jenkinsfile.md .github/ISSUE_TEMPLATE/bug.md vite.config.ts settings.json
        config.yml .bsp/sbt.json public/.htaccess
        .hgignore .jj/x .hg/dirstate repo/config.toml tools/build.py ci/build.yml schema.sql tools library
        """
    )
)


def tiers(path):
    write = classify("Write", {"file_path": f"/workspace/{path}", "content": "x"}, policy=POLICY).tier
    edit = classify("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, policy=POLICY).tier
    redirect = classify("Bash", {"command": f"echo x > '{path}'"}, policy=POLICY).tier
    taken = classify("Bash", {"command": f"cp a.txt '{path}'"}, policy=POLICY).tier
    return write, edit, redirect, taken


@pytest.mark.parametrize("path", [*PATHS, *(f"packages/a/{path}" for path in PATHS[::7]), *ASKED_FOR])
def test_a_file_that_takes_effect_by_itself_asks_however_it_is_written(path):
    assert tiers(path) == ("high",) * 4


@pytest.mark.parametrize("path", ORDINARY)
def test_a_file_of_ordinary_work_does_not_ask(path):
    assert tiers(path) == ("medium",) * 4


@pytest.mark.parametrize("path", PATHS)
def test_the_policy_and_the_kernel_have_the_same_table(path):
    parent, _, name = path.rpartition("/")
    assert takes_effect(name, parent)
    assert is_protected(["packages", *path.split("/")])


def test_each_row_names_a_tool_its_paths_in_lower_case_and_a_page_of_its_documentation():
    for tool, paths, page in rows():
        assert all([tool, paths, page])
        assert all(path == path.lower() and path.count("/") < 2 for path in paths)
