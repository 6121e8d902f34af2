"""Masks secrets in text that came from a log, so that a diagnosis can be pasted into a ticket.

Every pattern starts at a literal and repeats one bounded or unshared class, so the time is linear in the text whatever
it holds. What is masked says what it was (`[masked hf token]`), so that the line still reads.
"""

from __future__ import annotations

import re

__all__ = ["redact"]

# (what must occur for the pattern to be tried, pattern, what is said instead). A run of the repeated class holds its
# start literal at most once: the class lacks one of its characters, or a look-behind keeps it from starting inside a
# run, or the length is bounded.
_TOKENS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("hf_", re.compile(r"hf_[A-Za-z0-9]{30,}"), "hf token"),
    ("api_org_", re.compile(r"api_org_[A-Za-z0-9]{30,}"), "hf token"),
    ("gh", re.compile(r"gh[pousr]_[A-Za-z0-9]{30,}"), "github token"),
    ("github_pat_", re.compile(r"github_pat_[A-Za-z0-9_]{22,255}"), "github token"),
    ("glpat-", re.compile(r"glpat-[A-Za-z0-9_-]{20,255}"), "gitlab token"),
    ("xox", re.compile(r"xox[abeoprs]-[A-Za-z0-9-]{10,255}"), "slack token"),
    ("xapp-", re.compile(r"xapp-[A-Za-z0-9-]{10,255}"), "slack token"),
    ("hooks.slack.com", re.compile(r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/_-]{8,255}"), "slack webhook"),
    ("AIza", re.compile(r"AIza[0-9A-Za-z_-]{35}"), "google api key"),
    ("ya29.", re.compile(r"ya29\.[0-9A-Za-z_-]{20,2048}"), "google token"),
    ("nvapi-", re.compile(r"nvapi-[A-Za-z0-9_-]{40,255}"), "nvidia api key"),
    ("wandb_v", re.compile(r"wandb_v\d_[A-Za-z0-9_]{20,255}"), "wandb api key"),
    ("gsk_", re.compile(r"gsk_[A-Za-z0-9]{40,}"), "api key"),
    ("dapi", re.compile(r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![A-Za-z0-9])"), "databricks token"),
    ("npm_", re.compile(r"npm_[A-Za-z0-9]{30,}"), "npm token"),
    ("dckr_pat_", re.compile(r"dckr_pat_[A-Za-z0-9_-]{20,255}"), "docker token"),
    ("r8_", re.compile(r"(?<![A-Za-z0-9])r8_[A-Za-z0-9]{30,}"), "replicate token"),
    ("pypi-", re.compile(r"pypi-AgE[A-Za-z0-9_-]{40,1024}"), "pypi token"),
    ("_live_", re.compile(r"(?<![A-Za-z0-9])[sr]k_live_[A-Za-z0-9]{16,}"), "api key"),
    ("A", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"), "aws key id"),
    (
        "eyJ",
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,8192}\.[A-Za-z0-9_-]{10,8192}(?:\.[A-Za-z0-9_-]{0,8192}){0,3}"),
        "json web token",
    ),
)  # fmt: skip
# "task-...", "disk-..." are words; so are hyphenated names without a digit. A `\n` before it may be an escape.
_SK = re.compile(r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))sk-[A-Za-z0-9_-]{20,512}")

_USERINFO = re.compile(r"(?<=://)([^\s/:@\"'<>]{0,256}):([^\s/@\"'<>]{1,512})@")
_SIGNED = re.compile(
    r"([?&](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|awsaccesskeyid|googleaccessid"
    r"|signature|sig|key|code|token|access_token|auth|apikey|api_key)=)([^&\s\"'<>\[]{6,})",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(
    r"(authorization\\{0,2}[\"']?\s{0,3}[:=]\s{0,3}\\{0,2}[\"']?(?:bearer|basic|token|digest|negotiate)\s{1,3})([^\s\"',;\[\\]{4,})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\bbearer\s{1,3})([A-Za-z0-9._~+/=-]{16,})", re.IGNORECASE)

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = re.compile(r"(?:[\s\\n>\"']{0,40}[A-Za-z0-9+/=]{40,}){1,400}")
LONGEST_KEY = 20_000
"""Characters within which the end of a private key is looked for."""

# Forty hexadecimal digits are a commit as well: only after words that announce a key of Weights & Biases.
_WANDB = re.compile(
    r"(wandb[^\n]{0,60}(?:login|key|password)[^\n]{0,60}?)(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])", re.IGNORECASE
)

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+/@-])([A-Za-z0-9._%+-]{1,64})@((?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,24})(?![A-Za-z0-9_@(/-])(?!:[^\s])"
)
_TOP_LEVEL = frozenset((
    "com", "org", "net", "edu", "gov", "mil", "info", "biz", "dev", "app", "cloud", "tech", "ac", "xyz",
    "email", "online", "research", "google", "academy",
))  # fmt: skip
_NOT_A_COUNTRY = frozenset((
    "py", "sh", "so", "pt", "gz", "md", "js", "cc", "cu", "hh", "rs",
))  # fmt: skip
"""Two letters that end file names more often than addresses, though some are countries too."""
_NOT_A_PERSON = frozenset(("git", "hg", "svn", "ssh", "root", "ubuntu", "ec2-user"))

# A name that announces a secret, and what stands before its value: `=`, `:`, `--flag value`, `'--flag', 'value'`.
_NAMED = re.compile(
    r"(password|(?<=_)pass|passwd|passphrase|passcode|pwd|secret|api[_ -]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key"
    r"|account[_-]?key|private[_-]?key|shared[_-]?access[_-]?signature|(?:encryption|signing|license|service)[_-]?key|token)"
    r"(\\{0,3}[\"']?\]?\s{0,3}(?:=>|[=:])\s{0,3}|\\{0,3}[\"'],\s{0,3}(?=\\{0,3}[\"'])|[ \t]{1,3})",
    re.IGNORECASE,
)
_NAMED_PRECHECK = ("pass", "pwd", "secret", "key", "token", "signature")
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,48}\Z")
_QUOTE = re.compile(r"\\{0,3}[\"']")
_BARE_VALUE = re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\]+")
LONGEST_JUDGED = 256
"""Characters of an unquoted value that are looked at to judge it; what is masked goes on to its end."""
_FLAG = re.compile(r"(?:^|[\s\"'=])--?[A-Za-z0-9_.-]*\Z")

_TOKEN_OWNERS = frozenset((
    "hf", "huggingface", "hugging", "face", "hub", "auth", "access", "api", "app", "refresh", "id", "github",
    "gh", "gitlab", "bearer", "session", "slack", "wandb", "user", "login", "bot", "security", "service", "sas",
    "csrf", "xsrf", "jwt", "oauth", "personal", "private", "deploy", "ngc", "vault", "secret", "jupyter",
    "notebook", "kube", "k8s", "registry", "pypi", "npm", "aws", "gcp", "azure", "mlflow", "comet", "neptune",
    "client", "x",
))  # fmt: skip
_PLACEHOLDERS = frozenset((
    "none", "null", "nil", "true", "false", "yes", "no", "str", "string", "int", "bool", "bytes", "float",
    "object", "optional", "any", "required", "missing", "invalid", "unset", "undefined", "empty", "not", "is",
    "are", "was", "must", "should", "expected", "given", "provided", "set", "error", "changeme", "default",
    "masked", "redacted", "hidden", "the", "a", "an", "to", "for", "of", "in", "and", "or", "with", "from",
    "token", "tokens", "key", "keys", "password", "secret", "secretstr", "value", "type", "id", "name", "file",
    "path", "auto",
))  # fmt: skip
_PASSWORDS = frozenset(("password", "pass", "passwd", "passphrase", "passcode", "pwd"))
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_SEGMENTS = re.compile(r"[^A-Za-z0-9]+")
_WORD_NUMBER = re.compile(r"[A-Za-z]+\d{0,6}\Z|\d+[A-Za-z]{0,3}\Z")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_PROSE_GOES_ON = re.compile(r"[ \t]{1,2}[a-z]{1,20}(?:[ ,.;:]|\Z)")


def redact(text: str) -> str:
    """Return `text` with secrets masked, e.g. `token=[masked token]`. Masking twice changes nothing more."""
    if "-----BEGIN" in text:
        text = _mask_key_blocks(text)
    for needle, pattern, kind in _TOKENS:
        if needle in text:
            text = pattern.sub(f"[masked {kind}]", text)
    if "sk-" in text:
        text = _SK.sub(lambda m: "[masked api key]" if any(c.isdigit() for c in m[0]) else m[0], text)
    if "://" in text:
        text = _USERINFO.sub(_mask_userinfo, text)
    if "=" in text and ("?" in text or "&" in text):
        text = _SIGNED.sub(_mask_parameter, text)
    lowered = text.lower()
    if "authorization" in lowered:
        text = _AUTHORIZATION.sub(r"\1[masked credentials]", text)
    if "bearer" in lowered:
        text = _BEARER.sub(lambda m: f"{m[1]}[masked token]" if _secretive(m[2]) else m[0], text)
    if "wandb" in lowered:
        text = _WANDB.sub(r"\1[masked wandb api key]", text)
    if any(word in lowered for word in _NAMED_PRECHECK):
        text = _mask_named(text)
    if "@" in text:
        text = _EMAIL.sub(_mask_email, text)
    return text


def _mask_key_blocks(text: str) -> str:
    out: list[str] = []
    at = 0
    for begin in _KEY_BEGIN.finditer(text):
        if begin.start() < at:
            continue
        end = _KEY_END.search(text, begin.end(), begin.end() + LONGEST_KEY)
        rest = end or _KEY_LINES.match(text, begin.end(), begin.end() + LONGEST_KEY)
        out += [text[at : begin.start()], "[masked private key]"]
        at = rest.end() if rest else begin.end()
    return "".join([*out, text[at:]])


def _mask_userinfo(match: re.Match[str]) -> str:
    if match[2].startswith("[masked") or _placeholder(match[2]):
        return match[0]
    return f"{match[1]}:[masked password]@"


def _mask_parameter(match: re.Match[str]) -> str:
    name = match[1][1:-1].lower()
    if name in ("key", "code", "auth", "token", "signature", "sig") and not (_secretive(match[2]) or "%" in match[2]):
        return match[0]
    return f"{match[1]}[masked {'signature' if 'sig' in name else 'credential'}]"


def _mask_email(match: re.Match[str]) -> str:
    if match[2].endswith("gserviceaccount.com"):  # a machine's identity: who is refused is what the line is about
        return match[0]
    last = match[2].rsplit(".", 1)[1].lower()
    known = last in _TOP_LEVEL or (len(last) == 2 and last not in _NOT_A_COUNTRY)
    return "[masked e-mail]" if known and match[1].lower() not in _NOT_A_PERSON else match[0]


def _mask_named(text: str) -> str:
    out: list[str] = []
    at = 0
    for head in _NAMED.finditer(text):
        if head.start() < at or _is_masked(text, head.start()):
            continue
        prefix = _PREFIX.search(text, max(at, head.start() - 48), head.start())
        owner = prefix[0] if prefix else ""
        start, end, quoted = _value_at(text, head.end())
        value = text[start:end]
        if value and (kind := _secret_kind(text, head, owner, value, end, quoted)):
            rest = None if quoted else _BARE_VALUE.match(text, end)
            out += [text[at:start], f"[masked {kind}]"]
            at = rest.end() if rest else end
    return "".join([*out, text[at:]])


def _is_masked(text: str, at: int) -> bool:
    """Whether `at` is within `[masked ...]`, the mark of an earlier pass."""
    nearby = max(0, at - 40)
    return text.rfind("[masked ", nearby, at) > text.rfind("]", nearby, at)


def _value_at(text: str, start: int) -> tuple[int, int, bool]:
    """The span of the value at `start` without its quotes, and whether it has any. An open quote ends with its line."""
    opened = _QUOTE.match(text, start)
    if not opened:
        bare = _BARE_VALUE.match(text, start, start + LONGEST_JUDGED)
        return (start, bare.end() if bare else start, False)
    limit = min(len(text), opened.end() + 4096)
    newline = text.find("\n", opened.end(), limit)
    limit = newline if newline >= 0 else limit
    closed = text.find(opened[0], opened.end(), limit)
    return opened.end(), closed if closed >= 0 else limit, True


def _secret_kind(text: str, head: re.Match[str], owner: str, value: str, end: int, quoted: bool) -> str:
    """What kind of secret `value` is, or `""` when it is none, given the name before it and how it is written."""
    name = re.sub(r"[_ -]", "", head[1].lower())
    separator = head[2]
    flag = separator.isspace() or "," in separator
    if flag and not _FLAG.search(text, max(0, head.start() - 49), head.start()):
        # `password X` is how .netrc writes it; in prose any word may follow.
        return "password" if name == "password" and not owner and _secretive(value) else ""
    if name == "pass" and not owner.isupper():
        return ""  # forward_pass: 3 ms
    if name in _PASSWORDS and "=" in separator and "\n" not in separator:
        return "" if _no_password(name, text, value, end, quoted) else "password"
    if "\n" in separator or _placeholder(value):
        return ""
    if not quoted and _is_code(text, head, value, end, separator):
        return ""
    if name == "token":
        parts = [part for part in re.split(r"[_.-]", owner.lower()) if part]
        # CI_JOB_TOKEN=...: a variable of the environment whose name ends so holds one.
        variable = (
            owner.isupper()
            and separator.strip() == "="
            and not {"PAD", "EOS", "BOS", "UNK", "MASK"} & set(owner.split("_"))
        )
        strong = variable or (bool(parts) and parts[-1] in _TOKEN_OWNERS)
        return "token" if (strong and len(value) >= 8 and not value.isdigit()) or _secretive(value) else ""
    if name == "secret":
        return "secret" if len(value) >= 6 or quoted else ""
    if name in _PASSWORDS:
        # `pwd` is also the working directory.
        return "" if name == "pwd" and ("/" in value or "\\" in value) else "password"
    return "api key" if name == "apikey" else "key" if len(value) >= 6 else ""


def _no_password(name: str, text: str, value: str, end: int, quoted: bool) -> bool:
    """Whether what stands behind `password=` is none: nothing, a placeholder as a whole, a variable, a call."""
    plain = value.strip().lower()
    if plain in ("", "$", "%") or plain in _PLACEHOLDERS or set(plain) <= set("*x.•#_-") or plain.startswith("[masked"):
        return True
    if re.fullmatch(
        r"<[^<>]{0,60}>|\$\{?\w{1,60}\}?|%\(\w{1,60}\)s|\{\w{0,60}\}|your[_-]?\w{0,20}password\w{0,20}", plain
    ):
        return True
    if name == "pwd" and ("/" in value or "\\" in value):
        return True  # the working directory
    return not quoted and (
        text[end : end + 1] == "(" or bool(re.search(r"(?:^|[._])(?:password|passwd|pwd|pass|getpass)$", plain))
    )


def _is_code(text: str, head: re.Match[str], value: str, end: int, separator: str) -> bool:
    """Whether an unquoted value is an expression (`token=hf_token`, `f(`) or the next word of a sentence."""
    if text[end : end + 1] in ("(", "[", "{") or _DOTTED.match(value):
        return True
    simple = value.replace("_", "").isalpha()
    if simple and head[1].lower()[-3:] in value.lower():
        return True
    return simple and ":" in separator and bool(_PROSE_GOES_ON.match(text, end))


def _placeholder(value: str) -> bool:
    stripped = value.strip().strip(".,:;!?").lower()
    if not stripped or stripped in _PLACEHOLDERS or set(stripped) <= set("*x.•#_-"):
        return True
    return stripped.startswith(
        ("[masked", "your", "<", "$", "{", "%(", "os.environ", "***", "optional[", "union[", "my_")
    )


def _secretive(value: str) -> bool:
    """Whether `value` looks made by a machine: long, letters and digits mixed, not words, a number, a path."""
    if len(value) < 16 or value.isdigit() or value.startswith(("/", "./", "~")):
        return False
    if _UUID.match(value):
        return True
    if value.isalpha():
        return len(value) >= 24 and not (value.islower() or value.isupper() or value.istitle())
    long_parts = [part for part in _SEGMENTS.split(value) if len(part) >= 10]
    return any(
        any(c.isdigit() for c in part) and any(c.isalpha() for c in part) and not _WORD_NUMBER.match(part)
        for part in long_parts
    )
