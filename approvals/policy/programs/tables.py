"""What Handrail knows about programs: one line each, in the language of `grammar.py`."""

from .grammar import parse_table

# Programs that only read and print. No option listed here may write, delete, start a program or use the network.
READS = parse_table(
    """
    expr : * : text*
    pwd : -LP :
    date : -u -R -I=text? --utc --iso-8601=text? -d=text --date=text : format*
    whoami : :
    uuidgen : -rt :
    id : -unGgr : text*
    uname : -asnrvmpio :
    hostname : -s
    arch : :
    nproc : --all :
    uptime : -ps :
    locale : -a :
    sleep : : num*
    seq : -w -s=text -f=text : num*
    basename : -az -s=text --suffix=text : text*
    dirname : -z : text*
    realpath : -emsqz --relative-to=dir : in*
    readlink : -efmnqsvz : in*
    which|type : -aptfP : text*
    ls : -aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1 -w=num -I=text --all --almost-all --human-readable --color=text?
        --sort=text --time=text --time-style=text --group-directories-first --recursive --reverse --size --directory
        --full-time --format=text --indicator-style=text --ignore=text --hide=text --inode : dir*
    tree : -adfhlprstupDFgQJNiCnAS -L=num -I=text -P=text --du --dirsfirst --noreport --gitignore
        --filelimit=num --prune : dir*
    cat : -AbeEnstTuv --number --show-all --number-nonblank --squeeze-blank --show-ends --show-tabs
        --show-nonprinting : in*
    tac|rev|nl|zcat|bzcat|xzcat|zstdcat : : in*
    head : -# -qvz -n=num -c=num --lines=num --bytes=num --quiet --verbose : in*
    tail : -# -qvzfF -n=num -c=num --lines=num --bytes=num --quiet --verbose : in*
    wc : -lwcmL --lines --words --bytes --chars --max-line-length : in*
    stat : -Lft -c=text --format=text --printf=text --terse : in*
    file : -bhikLNrsvz --brief --mime --mime-type --mime-encoding --dereference : in*
    du : -abchklLmsSx0 -d=num --max-depth=num --human-readable --summarize --apparent-size --all --total
        --exclude=text --bytes : dir*
    df : -ahiHklmPT --human-readable : dir*
    grep|egrep|fgrep : -# -EFGPivwxclLoqshHnbRrazTyUZ -e=text -m=num -A=num -B=num -C=num -d=text -D=text -f=in
        --regexp=text --file=in --ignore-case --invert-match --word-regexp --line-regexp --count --color=text?
        --colour=text? --files-with-matches --files-without-match --max-count=num --only-matching --quiet --silent
        --no-messages --byte-offset --with-filename --no-filename --line-number --recursive --include=glob
        --exclude=text --exclude-dir=text --after-context=num --before-context=num --context=num --text
        --extended-regexp --fixed-strings --perl-regexp --basic-regexp --null --binary-files=text --line-buffered :
        pattern dir*
    rg : -# -iSsFnNclovwxpqULHI0aP -. -e=text -f=in -g=glob -t=text -T=text -A=num -B=num -C=num -m=num -j=num
        -d=num -r=text -M=num -E=text --regexp=text --file=in --glob=glob --iglob=glob --type=text --type-not=text
        --hidden --no-ignore --files --files-with-matches --files-without-match --count --count-matches
        --line-number --no-line-number --no-heading --heading --ignore-case --case-sensitive --smart-case
        --word-regexp --fixed-strings --multiline --only-matching --max-count=num --max-depth=num --max-columns=num
        --color=text --colors=text --json --stats --sort=text --sortr=text --context=num --after-context=num
        --before-context=num --invert-match --with-filename --no-filename --vimgrep --trim --null --passthru
        --replace=text --no-messages --column --pcre2 --text --threads=num --type-list --no-config : pattern dir*
    ag|ack : -ilLcnvwQ -A=num -B=num -C=num : pattern dir*
    fd|fdfind : -HIausLp0gFi -e=text -t=text -d=num -E=text -c=text --extension=text --type=text --max-depth=num
        --min-depth=num --exclude=text --hidden --no-ignore --absolute-path --full-path --glob --follow --color=text
        --size=text --changed-within=text --changed-before=text --print0 : text? dir*
    cut : -snz -b=text -c=text -d=text -f=text --bytes=text --characters=text --delimiter=text --fields=text
        --only-delimited --complement --output-delimiter=text : in*
    tr : -cCdst --delete --squeeze-repeats --complement --truncate-set1 : text text?
    paste : -sz -d=text --delimiters=text --serial : in*
    column : -tx -s=text -o=text -c=num -n=text : in*
    fold : -bs -w=num : in*
    fmt : -cstu -w=num : in*
    expand|unexpand : -ai -t=text : in*
    join : -i -1=num -2=num -t=text -a=num -o=text -v=num -e=text -j=num : in*
    comm : -123 --check-order --nocheck-order --output-delimiter=text : in*
    cmp : -bls -n=num -i=num : in*
    diff : -# -abBcdeEinpqrstTuwyN -U=num -C=num -W=num -x=text -I=text --unified=num? --context=num? --brief
        --recursive --new-file --ignore-all-space --ignore-case --ignore-blank-lines --ignore-space-change
        --side-by-side --width=num --color=text? --exclude=text --report-identical-files --suppress-common-lines
        --minimal --text --label=text --normal --no-dereference --strip-trailing-cr : dir*
    sort : -bdfghiMnRrVcCmsuz -k=text -t=text --key=text --field-separator=text --reverse --numeric-sort
        --unique --human-numeric-sort --version-sort --ignore-case --general-numeric-sort --stable --check
        --zero-terminated --ignore-leading-blanks : in*
    uniq : -cdDiuz -f=num -s=num -w=num --count --repeated --unique --ignore-case --skip-fields=num
        --skip-chars=num : in? out?
    xxd : ^ -abCeEipu -c=num -g=num -l=num -s=num -o=num -cols=num -len=num : in? out?
    hexdump|hd : -bcCdovx -n=num -s=num -e=text : in*
    od : -abcdfilosvxX -A=text -t=text -N=num -j=num -w=num : in*
    strings : -afow -n=num -t=text -e=text -# : in*
    base64|base32 : -di -w=num --decode --wrap=num --ignore-garbage : in*
    md5sum|sha1sum|sha224sum|sha256sum|sha384sum|sha512sum|b2sum|cksum|sum|b3sum : -btz --tag --binary --text :
        in*
    ps : -AaefFljuwx -o=column -p=num -u=text --sort=text : processes*
    [[ : * : text*
    man|info|help : -k : topic*
    cloc|tokei|scc : --by-file --json --exclude-dir=text --include-lang=text : dir*
    cal|ncal : -#mj : num*
    free : -bkmghtsw :
    lsof : -niPtv -p=num -u=text -c=text : socket*
    ss|netstat : -tlnpauxe4 : socket*
    eza|exa : -laRhTFd1 -L=num --tree --long --all --git --level=num : dir*
    lsb_release : -aircsd :
    getconf : -a : text*
    """,
    "reads",
)

# Build and test tools: they run the project's own code, whose changes a snapshot of the workspace can undo.
BUILDS = parse_table(
    """
    pytest|py.test : -qvxsl -k=text -m=text -n=text -r=text -W=text --maxfail=num --lf --ff --last-failed
        --failed-first --tb=text --collect-only --co --durations=num --cov=dir? --cov-report=coverage --no-header
        --no-cov --disable-warnings --strict-markers --timeout=num --exitfirst --verbose --quiet --capture=text
        --color=text --ignore=dir --deselect=text --nf --new-first --sw --stepwise --setup-show --showlocals
        --no-summary --numprocesses=text --dist=text --reuse-db --create-db --nomigrations : tests*
    make|gmake : -kisnBqt -j=num? --jobs=num? --dry-run --keep-going --silent --always-make --question
        --no-print-directory : target*
    ninja : -vkn -j=num : target*
    tsc : --noEmit --pretty --watch -w -b --build --strict --skipLibCheck --incremental --listFiles --version -v
        -p=dir --project=dir : dir*
    eslint|stylelint : --fix --quiet --cache --ext=text --max-warnings=num --format=plain -f=plain
        --no-error-on-unmatched-pattern --version --color --no-color : edit*
    prettier : --cache --check -c --list-different -l --write -w --no-error-on-unmatched-pattern --version --color
        --no-color : edit*
    ruff : --fix --check --diff --quiet -q --select=text --ignore=text --line-length=num --show-fixes
        --statistics --output-format=text --version --no-cache : ruff? edit*
    black|isort|autopep8|autoflake : --check --diff -q -l=num --quiet --line-length=num --in-place -i
        --check-only --profile=text --version --color : edit*
    gofmt : -l -d -s -w : edit*
    rustfmt : --check --edition=text : edit*
    shfmt : -l -d -s -w -i=num : edit*
    shellcheck : -s=text -e=text -f=text --severity=text --shell=text --exclude=text --format=text : in*
    mypy|pyright|flake8|pylint|pyflakes|bandit|vulture : --strict --ignore-missing-imports --show-error-codes
        --pretty --no-error-summary --outputjson --stats --version --max-line-length=num --disable=text
        --enable=text --select=text --ignore=text --warnings : dir*
    jest|vitest|mocha|ava : --watch --coverage --verbose --runInBand -i --bail -b --ci --run run -t=text
        --testNamePattern=text --grep=text -g=text --reporter=plain --updateSnapshot -u --silent --passWithNoTests :
        tests*
    tox|nox : -q -r -l -e=text -s=text --recreate : session*
    unittest : -v -q -f -b -k=text -s=dir -t=dir -p=text --start-directory=dir --pattern=text --failfast
        --buffer : text*
    phpunit|rspec : --filter=text --format=plain --stop-on-failure : tests*
    """,
    "builds",
)

# Programs whose purpose is to change files; each target is judged as an edit.
WRITES = parse_table(
    """
    touch : -acmh -d=text -t=text -r=in --date=text --no-create : out*
    mkdir : -pv -m=mode --parents --verbose --mode=mode : out*
    rmdir : -pv --parents --verbose --ignore-fail-on-non-empty : gone*
    rm : -rRfivdI --recursive --force --verbose --interactive=text? --dir : gone*
    unlink : : gone*
    shred : -fuzvx -n=num : gone*
    truncate : -c -s=text --size=text --no-create : out*
    cp : -aRrfipnvuLPHdTlsx --recursive --archive --force --no-clobber --verbose --update --preserve=text?
        --no-target-directory --dereference --no-dereference -t=out --target-directory=out : in* out
    mv : -fivnuT --force --no-clobber --verbose --update --no-target-directory -t=out --target-directory=out :
        moved* out
    ln : -sfvnrT --symbolic --force --verbose --relative --no-dereference : link* out
    install : -dDvCp -m=mode --mode=mode : in* out
    tee : -ai --append : out*
    chmod : -RvcfX --recursive --verbose --changes --quiet : mode out*
    gzip|gunzip|bzip2|bunzip2|xz|unxz|zstd|unzstd : -# -kfvdtlc --keep --force --verbose --decompress --stdout
        --list --test : out*
    mktemp : -dqu --directory : out*
    dos2unix|unix2dos : -kq : out*
    """,
    "writes",
)
