"""What program text for Python may use and still count as text that only works on the files that it names.

Nothing here gives a program a file, a process, a connection, another program text or an attribute by a name that is
made while it runs.
"""

import builtins

from ..shell_words import names

BUILTINS = names(
    """
    abs all any ascii bin bool bytearray bytes chr dict divmod enumerate exit filter float frozenset hash hex id int
    isinstance iter len list map max min next oct ord pow print quit range repr reversed round set slice sorted str sum
    tuple zip True False None NotImplemented Ellipsis
    """
) | {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and not name.startswith("_")
}
# Names that are no variable even if the text sets them somewhere, since they mean something else until it does.
TAKEN = frozenset(vars(builtins)) - BUILTINS
TAKEN_BEFORE = names("apply buffer execfile file intern raw_input reload")  # in Python 2, which `python` may be

# Attributes of plain values: texts, numbers, collections, streams, patterns and their matches, dates, exceptions.
ATTRIBUTES = names(
    """
    split rsplit splitlines strip lstrip rstrip replace startswith endswith find rfind index rindex count join lower
    upper title capitalize casefold center ljust rjust zfill swapcase expandtabs partition rpartition removeprefix
    removesuffix translate maketrans encode decode isdigit isalpha isalnum isspace isupper islower isdecimal isnumeric
    isidentifier isascii istitle isprintable fromhex hex from_bytes to_bytes bit_length is_integer real imag
    append extend insert pop remove sort reverse copy clear get items keys values update setdefault popitem fromkeys
    move_to_end most_common elements total subtract appendleft popleft rotate add discard union intersection difference
    symmetric_difference issubset issuperset isdisjoint intersection_update difference_update
    read readline readlines write writelines close flush seek tell getvalue buffer isatty reconfigure
    search match fullmatch findall finditer sub subn group groups groupdict start end span pattern lastgroup
    hexdigest digest year month day hour minute second microsecond days seconds total_seconds isoformat strftime
    timestamp date weekday now today utcnow fromtimestamp fromisoformat strptime utc
    args msg lineno colno writerow writerows writeheader fieldnames ratio get_opcodes
    """
)

MODULES = {
    "json": "load loads dump dumps JSONDecodeError",
    "re": "compile search match fullmatch findall finditer sub subn split escape error I IGNORECASE M MULTILINE S"
    " DOTALL X VERBOSE A ASCII U UNICODE",
    "sys": "stdin stdout stderr argv exit maxsize version version_info byteorder platform maxunicode",
    "collections": "Counter OrderedDict defaultdict deque",
    "math": "ceil floor sqrt log log2 log10 exp pow fabs fsum gcd hypot isnan isinf isclose pi e inf nan trunc sin cos"
    " tan atan atan2 degrees radians comb prod dist",
    "itertools": "chain groupby islice count cycle repeat accumulate product permutations combinations zip_longest"
    " takewhile dropwhile starmap tee pairwise compress filterfalse",
    "functools": "reduce partial",
    "operator": "itemgetter add sub mul",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits punctuation whitespace printable",
    "textwrap": "dedent indent wrap fill shorten",
    "datetime": "datetime date timedelta timezone",
    "time": "time sleep perf_counter monotonic strftime gmtime localtime",
    "struct": "pack unpack unpack_from calcsize iter_unpack error",
    "hashlib": "md5 sha1 sha224 sha256 sha384 sha512 blake2b",
    "base64": "b64encode b64decode urlsafe_b64encode urlsafe_b64decode b32encode b32decode b16encode b16decode",
    "binascii": "hexlify unhexlify crc32",
    "zlib": "compress decompress crc32 adler32",
    "gzip": "compress decompress",
    "html": "escape unescape",
    "unicodedata": "name category normalize east_asian_width lookup combining bidirectional",
    "difflib": "unified_diff ndiff context_diff SequenceMatcher get_close_matches",
    "csv": "reader writer DictReader DictWriter QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE",
    "pprint": "pprint pformat",
    "random": "random randint choice shuffle sample seed uniform",
    "statistics": "mean median mode stdev pstdev quantiles",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "tomllib": "load loads",
    "yaml": "safe_load safe_load_all safe_dump YAMLError",
    "ast": "literal_eval",
    "io": "StringIO BytesIO TextIOWrapper",
    "os.path": "basename dirname splitext join normpath sep relpath abspath exists isfile isdir getsize getmtime",
    "os": "sep linesep",
}
MODULES = {module: names(text) for module, text in MODULES.items()}
# Functions that open the file that their first argument names.
OPENERS = names("open io.open codecs.open gzip.open")
MODULES["codecs"] = frozenset()
