"""The files that take effect by themselves, by the tool that reads them.

A path is here if a tool runs what it says, or gets more rights by it, without anybody starting just that file: at the
start of an agent, an editor or a shell, at a commit, at a push. What a person or an agent starts on purpose is not
(Makefile, justfile, package.json, conftest.py, Dockerfile, a linter's settings): that is ordinary work, and edited all
day. Nor are files that builds make by themselves (.bsp, .htaccess), nor texts that only instruct an agent (AGENTS.md,
CLAUDE.md, .cursorrules): they give it no rights.

A line is `tool : paths : page of its documentation`. A path is a name of a file or folder at any depth, or a folder and
a name in it; `*` stands for any part of a name. All in lower case, as they are compared.

The agents that Handrail understands have their lines in STARTUP_FILES of `approvals/agents/*/protected.py`.
"""

from . import agents

OTHER_AGENTS = """
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
    Qodo : .qodo : Agents; MCP
    Codebuff : codebuff.json .codebuff : Configuration (startupProcesses, fileChangeHooks)
    Kimi CLI : .kimi : Configuration; MCP
    Serena : .serena : Project configuration (language servers)
    Conductor : conductor.json .conductor : Scripts (setup, run, archive)
    Mux : .mux : Init hooks; Tool hooks
    Superset : .superset : Setup and teardown scripts
    Zencoder : .zencoder : MCP; Agents
    ForgeCode : .forge forge.yaml : Configuration; MCP
    OpenClaw : .openclaw : Configuration (hooks, exec)
    Sweep : sweep.yaml : Configuration (sandbox commands)
    MCP servers of any agent : mcp_config.json : MCP, connect to local servers
    Handrail : .handrail : Environments
"""
EDITORS = """
    VS Code : .vscode *.code-workspace .vscode-server : Tasks; Workspace settings
    JetBrains : .idea .run .fleet : Run configurations; Startup tasks
    Visual Studio : .vs : Customize build and debug tasks
    Vim : .vimrc .gvimrc .exrc .vim .lvimrc .config/vim : starting.txt, exrc; autocmd.txt
    Neovim : .nvimrc .nvim.lua .nvim .config/nvim : options, exrc
    Emacs : .dir-locals.el .dir-locals-2.el .emacs .emacs.d : Directory variables
    Emacs : .config/emacs .config/doom .doom.d .spacemacs .spacemacs.d : Init file
    Eclipse : .externaltoolbuilders : Project builders
    Kate : .kateproject : Project plugin (build and tool commands)
    Qt Creator : *.pro.user cmakelists.txt.user : Build and run settings (custom steps)
    Lapce : .lapce : Plugins and settings of a workspace
    Kakoune and micro : .config/kak .config/micro : Startup
    Sublime Text : *.sublime-project *.sublime-workspace : Projects (build systems)
    Helix : .helix .config/helix : Languages (language servers of a project)
    Nova : .nova : Tasks
    Theia : .theia : Tasks
    Dev containers : .devcontainer .devcontainer.json devcontainer.json : Lifecycle scripts
    Gitpod : .gitpod.yml .gitpod.yaml .gitpod .ona : Tasks; Automations
    Firebase Studio : .idx : dev.nix, onStart
    Eclipse Che : devfile.yaml .devfile.yaml : devfile (events.postStart)
    Replit : .replit replit.nix : .replit file (run, onBoot)
    CodeSandbox : .codesandbox : Tasks
    StackBlitz : .stackblitzrc : startCommand
"""
HOSTS_AND_CI = """
    GitHub : .github/workflows .github/actions .github/settings.yml : Workflow syntax; Code owners
    GitHub : .github/dependabot.yml codeowners : Workflow syntax; Code owners
    GitLab : .gitlab-ci.yml .gitlab-ci.yaml *.gitlab-ci.yml *.gitlab-ci.yaml .gitlab : CI/CD YAML reference; Code owners
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
    Screwdriver : screwdriver.yaml .screwdriver.yaml : User guide
    Zuul : .zuul.yaml .zuul.d zuul.yaml zuul.d : Project configuration
    GoCD : .gocd.yaml *.gocd.yaml : Pipelines as code
    OneDev : .onedev-buildspec.yml : Build spec
    CloudBees : .cloudbees : Workflows
    Bamboo : bamboo-specs : Bamboo Specs
    Vela : .vela.yml .vela.yaml : Pipeline reference
    Buddy : buddy.yml .buddy : YAML configuration
    Scrutinizer : .scrutinizer.yml : Build configuration
    Taskcluster : .taskcluster.yml : Using the GitHub service
    Evergreen : .evergreen.yml evergreen.yml : Project configuration files
    Prow and OpenShift CI : .prow .prow.yaml .ci-operator.yaml : In-repo configuration
    Agola and CDS : .agola .cds : Pipelines as code
    RWX : .rwx .mint : Run definitions
    Nx Cloud : .nx/workflows : Custom launch templates
    Depot : .depot/workflows : Depot CI, workflows
    Garnix and Hercules : garnix.yaml ci.nix : Configuration
    Packit, COPR and OBS : .packit.yaml .packit.yml packit.yaml packit.yml .copr .obs : Actions; make srpm; Workflows
    Netlify : netlify.toml : File-based configuration (build.command, plugins)
    Vercel : vercel.json vercel.ts : Project configuration (buildCommand, ignoreCommand)
    AWS Amplify, CodeDeploy and Beanstalk : amplify.yml appspec.yml appspec.yaml .ebextensions : Build settings; Hooks
    Platform.sh and Upsun : .platform .platform.app.yaml .upsun : Builds and deploys (hooks)
    Render and Railway : render.yaml railway.json railway.toml : Blueprint reference; Config as code
    Heroku and Nixpacks : heroku.yml nixpacks.toml : Build manifest; Configuration file
    DigitalOcean : .do : App specification (build_command)
    Read the Docs : .readthedocs.yaml .readthedocs.yml : Configuration file (build.jobs)
    Renovate : renovate.json renovate.json5 .renovaterc .renovaterc.json : postUpgradeTasks
    Mergify : .mergify.yml .mergify : Configuration file
"""
HOOKS = """
    git : .git .gitconfig .gitattributes .lfsconfig : githooks; gitattributes (filters)
    git : .config/git .githooks .git-hooks : githooks; gitattributes (filters)
    git : .git-template .git-templates .git_template .hooks : git-init (template directory); core.hooksPath
    Mercurial : .hgrc .hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .config/hg : hgrc (hooks, extensions)
    Jujutsu : .jjconfig.toml .jj/repo .jj/workspace-config.toml .config/jj : Settings (fix.tools, aliases)
    Sapling : .sl/config .slconfig : Configuration (hooks)
    Pijul : .pijul/config .config/pijul : Configuration (hooks)
    Subversion : .subversion : Runtime configuration area (diff-cmd, tunnels)
    Breezy : .config/breezy .bazaar : Configuration (external merge tools)
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
    rusty-hook and cargo-husky : .rusty-hook.toml .cargo-husky : Configuration
    Whisky : whisky.json : Configuration
    Review tools : .arcconfig .arclint .reviewboardrc : Arcanist (linters, load); RBTools configuration
    hk : hk.pkl .hk : Configuration
    Trunk : .trunk : Actions
    direnv : .envrc .config/direnv : direnv.toml; .envrc
    mise : mise.toml .mise.toml mise.*.toml .mise.*.toml .mise .config/mise .config/mise.toml .rtx.toml : Hooks; Tasks
    autoenv : .autoenv .autoenv.zsh .autoenv.leave : Usage
    Shadowenv : .shadowenv.d : Getting started
    Flox : .flox : manifest.toml (hook.on-activate)
    pkgx : pkgx.yaml pkgx.yml .pkgx.yaml .pkgx.yml : dev environments
    proto : .prototools : Configuration (plugins)
"""
PACKAGE_MANAGERS = """
    npm : .npmrc : npmrc (script-shell, node-options)
    Yarn : .yarnrc .yarnrc.yml .yarn/releases .yarn/plugins : Settings (yarnPath, plugins)
    Yarn : .pnp.cjs .pnp.js .pnp.loader.mjs : Plug'n'Play (loaded by each node)
    pnpm : .pnpmfile.cjs .pnpmfile.mjs pnpmfile.cjs pnpm-workspace.yaml : .pnpmfile.cjs; Settings (scriptShell)
    Bun : bunfig.toml .bunfig.toml : bunfig.toml (preload)
    Cargo : .cargo rust-toolchain rust-toolchain.toml : Configuration (runner, rustc-wrapper); Overrides (path)
    Gradle : gradlew gradlew.bat gradle-wrapper.properties gradle-wrapper.jar : Wrapper; Init scripts
    Gradle : .gradle/init.d .gradle/init.gradle : Wrapper; Init scripts
    Maven : mvnw mvnw.cmd .mvn : Wrapper; Extensions; jvm.config
    sbt : .sbtopts .jvmopts : Running
    Bazel : .bazelrc .bazeliskrc .bazelversion tools/bazel* : Write bazelrc files; Bazelisk
    Please : .plzconfig .plzconfig.* : Config file reference
    Buck : .buckconfig .buckconfig.local : .buckconfig
    Pants : .pants.rc : Global options
    pip : pip.conf pip.ini .config/pip .pydistutils.cfg : Configuration
    Python : .pythonrc .pythonrc.py .pythonstartup jupyter_*config.py jupyter_*config.json : PYTHONSTARTUP; Jupyter
    Python : sitecustomize.py usercustomize.py site-packages/*.pth .pdbrc .ipython .jupyter : site; pdb
    Bundler : .bundle/config .gemrc : bundle config
    Ansible : ansible.cfg : Configuration settings (plugins of the current folder)
    Nix : .config/nix : nix.conf
    curl and wget : .curlrc .wgetrc : Config file
    ack and ripgrep : .ackrc .ripgreprc : The .ackrc file; Configuration file (--pre)
    PHP : .user.ini .psysh.php .config/psysh : .user.ini files (auto_prepend_file); PsySH configuration
    LaTeX : .latexmkrc latexmkrc texmf.cnf : latexmk (Perl code); kpathsea (shell_escape)
"""
SHELLS = """
    bash : .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile : Startup files
    bash : .bash_env .bash_functions : Startup files (BASH_ENV)
    zsh : .zshrc .zprofile .zshenv .zlogin .zlogout .zsh .oh-my-zsh .oh-my-bash .p10k.zsh : Startup files
    fish : .config/fish : Configuration files
    ksh, csh and tcsh : .kshrc .mkshrc .cshrc .tcshrc .login .logout : Startup
    Elvish and Starship : .elvish .config/elvish .config/starship.toml : rc.elv; Custom commands
    Nushell, xonsh and PowerShell : .config/nushell .xonshrc .config/powershell : Startup; Profiles
    readline : .inputrc : Readline init file
    Terminals : .tmux.conf .screenrc .wezterm.lua .config/kitty .config/tmux .config/wezterm : Configuration
    Terminals : .config/alacritty .config/ghostty .config/foot .config/zellij .hyper.js : Configuration (shell)
    Debuggers : .gdbinit .gdbearlyinit .lldbinit .lldbinit-* .radare2rc .rdbgrc .rdbgrc.rb .byebugrc : Init files
    Interpreters : .tclshrc .wishrc .ocamlinit .clisprc .eclrc .julia/config .gnuplot : Startup
    Interpreters : .irbrc .pryrc .rprofile .renviron .octaverc .ghci .iex.exs .erlang .sbclrc .guile .perldb : Startup
    Databases : .psqlrc .sqliterc .mongoshrc.js .mongorc.js .duckdbrc .usqlrc login.sql : Startup files
    ssh : .ssh : ssh_config (ProxyCommand)
    GnuPG : .gnupg : gpg-agent.conf
    Session : .pam_environment .xprofile .xsession .xsessionrc .xinitrc : Autostart; systemd.unit
    Session : .config/autostart .config/environment.d .config/systemd : Autostart; systemd.unit
    Desktop : .config/plasma-workspace .config/hypr .config/i3 .config/sway : Autostart
    Desktop : .config/openbox .config/awesome .config/bspwm .config/sxhkd .config/qtile .xmonad : Autostart
    Desktop : library/launchagents* autorun.inf : launchd.plist; Autorun
    less : .lessfilter .lesskey : lesspipe; lesskey
    Mail : .forward .procmailrc .mailcap : Local delivery; mailcap
"""
TABLES = (OTHER_AGENTS, EDITORS, HOSTS_AND_CI, HOOKS, PACKAGE_MANAGERS, SHELLS)


def rows():
    """Yield (tool, paths, page of its documentation)."""
    of_agents = (agent.STARTUP_FILES for agent in agents.modules().values())
    for line in "\n".join((*TABLES, *of_agents)).splitlines():
        if line.strip():
            tool, paths, page = (part.strip() for part in line.split(" : "))
            yield tool, paths.split(), page
