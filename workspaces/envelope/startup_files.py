"""The files that take effect by themselves, by the tool that reads them.

A path is here if a tool runs what it says, or gets more rights by it, without anybody starting just that file: at the
start of an agent, an editor or a shell, at a commit, at a push. What a person or an agent starts on purpose is not
(Makefile, justfile, package.json, conftest.py, Dockerfile, a linter's settings): that is ordinary work, and edited all
day. Nor are texts that only instruct an agent (AGENTS.md, CLAUDE.md, .cursorrules): they give it no rights.

A line is `tool : paths : page of its documentation`. A path is a name of a file or folder at any depth, or a folder and
a name in it; `*` stands for any part of a name. All in lower case, as they are compared.
"""

AGENTS = """
    Claude Code : .claude .claude-plugin .mcp.json : Settings; Hooks; Plugins; MCP
    Codex : .codex : Config reference
    Gemini CLI : .gemini : Configuration
    Qwen Code : .qwen : Settings
    GitHub Copilot : .copilot .github/hooks .github/agents .github/skills : Hooks; Custom agents
    GitHub Copilot : .github/copilot .github/mcp.json : Hooks; Custom agents
    Cursor : .cursor : MCP; Hooks; Rules
    Windsurf : .windsurf .codeium : Cascade hooks; MCP
    Devin : .devin : Environment configuration
    Zed : .zed .config/zed : Configuring Zed; Tasks
    Amp : .amp .config/amp : Configuration; Toolboxes
    Roo Code : .roo .roomodes : MCP; Custom modes
    Cline : .cline .clinerules : Hooks; Workflows
    Kilo Code : .kilo .kilocode .kilocodemodes : MCP; Custom modes
    Junie : .junie : MCP settings
    Factory : .factory : MCP; Hooks; Custom droids
    Continue : .continue .continuerc.json : config.yaml reference
    Trae : .trae : MCP; Custom agents
    Kiro : .kiro : Hooks; MCP configuration
    Amazon Q : .amazonq : Agent format; MCP
    OpenCode : .opencode opencode.json opencode.jsonc .config/opencode : Config; Plugins
    Goose : .goose .config/goose : Extensions; Recipes
    Aider : .aider.conf.yml .aider.conf.yaml .aider.model.settings.yml : YAML config file (lint-cmd, test-cmd)
    Augment : .augment : Hooks; Settings
    Warp : .warp : MCP; Workflows
    Crush : .crush .crush.json crush.json .config/crush : Configuration
    Void : .void : MCP
    Antigravity : .agent .antigravity : Workflows; Skills
    Skills of any agent : .agents : Agent Skills specification (scripts, allowed-tools)
    MCP servers of any agent : mcp.json : MCP, install a server
    OpenHands : .openhands : Repository customization (setup.sh, hooks)
    JetBrains AI : .aiassistant : Project rules and MCP
    Tabnine : .tabnine : MCP; Guidelines
    Sourcegraph Cody : .cody : Custom commands
    Rovo Dev : .rovodev : Settings
    Mistral Vibe : .vibe : Configuration
    iFlow : .iflow : Settings
    CodeBuddy : .codebuddy : Hooks; MCP
    Qoder : .qoder .lingma : MCP; Hooks
    Pi : .pi : Extensions
    Letta Code : .letta : Settings; Hooks
    Plandex : .plandex .plandex-v2 : Configuration
    gptme : gptme.toml : Project configuration
    Grok CLI : .grok : Settings
    Rulesync : .ruler .rulesync : Configuration (MCP servers of all agents)
    Handrail : .handrail : Environments
"""
EDITORS = """
    VS Code : .vscode *.code-workspace .vscode-server : Tasks; Workspace settings
    JetBrains : .idea .run .fleet : Run configurations; Startup tasks
    Visual Studio : .vs : Customize build and debug tasks
    Vim : .vimrc .gvimrc .exrc .vim .lvimrc : starting.txt, exrc; autocmd.txt
    Neovim : .nvimrc .nvim.lua .nvim .config/nvim : options, exrc
    Emacs : .dir-locals.el .dir-locals-2.el .emacs .emacs.d : Directory variables
    Sublime Text : *.sublime-project *.sublime-workspace : Projects (build systems)
    Helix : .helix .config/helix : Languages (language servers of a project)
    Nova : .nova : Tasks
    Theia : .theia : Tasks
    Dev containers : .devcontainer .devcontainer.json devcontainer.json : Lifecycle scripts
    Gitpod : .gitpod.yml .gitpod.yaml .gitpod .ona : Tasks; Automations
    Firebase Studio : .idx : dev.nix, onStart
    Replit : .replit : .replit file (run, onBoot)
    CodeSandbox : .codesandbox : Tasks
    StackBlitz : .stackblitzrc : startCommand
"""
HOSTS_AND_CI = """
    GitHub : .github/workflows .github/actions .github/settings.yml : Workflow syntax; Code owners
    GitHub : .github/dependabot.yml codeowners : Workflow syntax; Code owners
    GitLab : .gitlab-ci.yml .gitlab-ci.yaml .gitlab : CI/CD YAML reference; Code owners
    Gitea : .gitea : Actions
    Forgejo : .forgejo : Actions reference
    CircleCI : .circleci : Configuration reference
    Buildkite : .buildkite : Defining steps; Repository hooks
    Jenkins : jenkinsfile : Using a Jenkinsfile
    Azure : azure-pipelines.yml azure-pipelines.yaml .azure-pipelines .azuredevops .vsts-ci.yml : YAML schema
    Bitbucket : bitbucket-pipelines.yml : Pipelines YAML
    Drone : .drone.yml .drone.yaml .drone.star .drone.jsonnet : Configuration
    Woodpecker : .woodpecker .woodpecker.yml .woodpecker.yaml : Workflow syntax
    Travis : .travis.yml : Config reference
    AppVeyor : appveyor.yml .appveyor.yml : appveyor.yml reference
    Cirrus : .cirrus.yml .cirrus.yaml .cirrus.star : Writing tasks
    TeamCity : .teamcity : Kotlin DSL
    Tekton : .tekton : Pipelines as Code
    Semaphore : .semaphore : Pipeline YAML
    Concourse : .concourse concourse.yml : Pipelines
    Google Cloud Build : cloudbuild.yaml cloudbuild.yml cloudbuild.json : Build config file
    AWS CodeBuild : buildspec.yml buildspec.yaml : Build specification reference
    SourceHut : .build.yml .builds : builds.sr.ht manifests
    Harness : .harness : Pipelines as code
    Codeship : codeship-steps.yml codeship-services.yml : Steps
    Bitrise : bitrise.yml bitrise.yaml : Configuration YAML
    Codemagic : codemagic.yaml : codemagic.yaml
    Wercker : wercker.yml : Configuration
    Screwdriver : screwdriver.yaml : User guide
    Zuul : .zuul.yaml .zuul.d zuul.yaml zuul.d : Project configuration
    GoCD : .gocd.yaml *.gocd.yaml : Pipelines as code
    OneDev : .onedev-buildspec.yml : Build spec
    CloudBees : .cloudbees : Workflows
    Read the Docs : .readthedocs.yaml .readthedocs.yml : Configuration file (build.jobs)
    Renovate : renovate.json renovate.json5 .renovaterc .renovaterc.json : postUpgradeTasks
    Mergify : .mergify.yml .mergify : Configuration file
"""
HOOKS = """
    git : .git .gitconfig .gitattributes .lfsconfig : githooks; gitattributes (filters)
    git : .config/git .githooks .git-hooks : githooks; gitattributes (filters)
    pre-commit : .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml prek.toml : Creating hooks
    husky : .husky .huskyrc .huskyrc.json .huskyrc.js : Get started
    lefthook : lefthook.yml lefthook.yaml lefthook.toml lefthook.json : Configuration
    lefthook : .lefthook.yml .lefthook.yaml .lefthook.toml : Configuration
    lefthook : lefthook-local.yml lefthook-local.yaml lefthook-local.toml : Configuration
    lefthook : .lefthook-local.yml .lefthook : Configuration
    lint-staged : .lintstagedrc .lintstagedrc.* lint-staged.config.* : Configuration
    simple-git-hooks : .simple-git-hooks.* simple-git-hooks.* : Configuration
    overcommit : .overcommit.yml .overcommit : Configuration
    CaptainHook : captainhook.json captainhook.config.json : Configuration
    GrumPHP : grumphp.yml grumphp.yml.dist : Configuration
    hk : hk.pkl .hk : Configuration
    Trunk : .trunk : Actions
    direnv : .envrc .config/direnv : direnv.toml; .envrc
    mise : mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .config/mise .rtx.toml : Hooks; Tasks
"""
PACKAGE_MANAGERS = """
    npm : .npmrc : npmrc (script-shell, node-options)
    Yarn : .yarnrc .yarnrc.yml .yarn/releases .yarn/plugins : Settings (yarnPath, plugins)
    pnpm : .pnpmfile.cjs .pnpmfile.mjs pnpmfile.cjs : .pnpmfile.cjs
    Bun : bunfig.toml .bunfig.toml : bunfig.toml (preload)
    Cargo : .cargo : Configuration (runner, rustc-wrapper)
    Gradle : gradlew gradlew.bat gradle-wrapper.properties gradle-wrapper.jar : Wrapper; Init scripts
    Gradle : .gradle/init.d .gradle/init.gradle : Wrapper; Init scripts
    Maven : mvnw mvnw.cmd .mvn : Wrapper; Extensions; jvm.config
    sbt : .sbtopts .jvmopts : Running
    Bazel : .bazelrc .bazeliskrc : Write bazelrc files; Bazelisk
    Buck : .buckconfig .buckconfig.local : .buckconfig
    Pants : .pants.rc : Global options
    pip : pip.conf pip.ini .config/pip .pydistutils.cfg : Configuration
    Python : sitecustomize.py usercustomize.py site-packages/*.pth .pdbrc .ipython .jupyter : site; pdb
    Bundler : .bundle/config .gemrc : bundle config
    Ansible : ansible.cfg : Configuration settings (plugins of the current folder)
    Nix : .config/nix : nix.conf
    curl and wget : .curlrc .wgetrc : Config file
    ack : .ackrc : The .ackrc file
"""
SHELLS = """
    bash : .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile : Startup files
    zsh : .zshrc .zprofile .zshenv .zlogin .zlogout .zsh .oh-my-zsh : Startup files
    fish : .config/fish : Configuration files
    ksh, csh and tcsh : .kshrc .mkshrc .cshrc .tcshrc .login .logout : Startup
    Nushell, xonsh and PowerShell : .config/nushell .xonshrc .config/powershell : Startup; Profiles
    readline : .inputrc : Readline init file
    Terminals : .tmux.conf .screenrc .wezterm.lua .config/kitty .config/tmux .config/wezterm : Configuration
    Debuggers : .gdbinit .lldbinit : Init files
    Interpreters : .irbrc .pryrc .rprofile .renviron .octaverc .ghci .iex.exs .erlang .sbclrc .guile .perldb : Startup
    Databases : .psqlrc .sqliterc .mongoshrc.js .mongorc.js : Startup files
    ssh : .ssh : ssh_config (ProxyCommand)
    GnuPG : .gnupg : gpg-agent.conf
    Session : .pam_environment .xprofile .xsession .xsessionrc .xinitrc : Autostart; systemd.unit
    Session : .config/autostart .config/environment.d .config/systemd : Autostart; systemd.unit
    Desktop : .config/plasma-workspace .config/hypr .config/i3 .config/sway : Autostart
    Mail : .forward .procmailrc : Local delivery
"""
TABLES = (AGENTS, EDITORS, HOSTS_AND_CI, HOOKS, PACKAGE_MANAGERS, SHELLS)


def rows():
    """Yield (tool, paths, page of its documentation)."""
    for line in "\n".join(TABLES).splitlines():
        if line.strip():
            tool, paths, page = (part.strip() for part in line.split(" : "))
            yield tool, paths.split(), page
