"""Column preparation in C, so that a header scores raw rows: a struct with one member per column."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from pbdn.errors import InvalidInputError
from pbdn.export.c import comment, numbers, string_literal, strings, to_c
from pbdn.export.plan import Several, check_name, number
from pbdn.model.network import Network
from pbdn.tables.column_format import date_tokens
from pbdn.tables.column_to_numbers import DATE_PARTS, ColumnPlan
from pbdn.tables.preparation import Preparation
from pbdn.tables.read_cell import MISSING

_WORDS = (  # of C and C++, and names that compilers define
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const constexpr "
    "const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false float for "
    "friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected "
    "public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct "
    "switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void "
    "volatile wchar_t while xor xor_eq linux unix errno NULL NAN INFINITY EOF I isfinite"
)
RESERVED = frozenset(_WORDS.split())
_ROW = """\
/* A row as it stands in the table. Missing: NAN or NULL; also texts such as "" and "NA", and dates that are none.
 * Text is UTF-8, compared byte for byte without the spaces around it. */
typedef struct {{
{members}}} {name}_row;
"""
_MISSING = """
static inline int {name}_is_missing(const char *text)
{{
    static const char *const words[] = {words};
    char lower[{size}];
    size_t n = 0;
    if (text == NULL)
        return 1;
    text += strspn(text, " \\t\\r\\n\\f\\v");
    for (; text[n] != '\\0' && n < sizeof lower - 1; ++n)
        lower[n] = (char)(text[n] >= 'A' && text[n] <= 'Z' ? text[n] - 'A' + 'a' : text[n]);
    if (text[n + strspn(text + n, " \\t\\r\\n\\f\\v")] != '\\0')
        return 0;
    while (n > 0 && strchr(" \\t\\r\\n\\f\\v", lower[n - 1]) != NULL)
        --n;
    lower[n] = '\\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i)
        if (strcmp(lower, words[i]) == 0)
            return 1;
    return 0;
}}
"""
_CATEGORY = """
/* Features of a category: those of its level, else the last row but one; the last row is of a missing one. */
static inline void {name}_category(const char *text, const char *const *levels, int n_levels,
                                   const double *features, int n_features, double *x)
{{
    int row = {name}_is_missing(text) ? n_levels + 1 : 0;
    size_t n = 0;
    if (row == 0) {{
        text += strspn(text, " \\t\\r\\n\\f\\v");
        n = strlen(text);
        while (n > 0 && strchr(" \\t\\r\\n\\f\\v", text[n - 1]) != NULL)
            --n;
    }}
    while (row < n_levels && (strlen(levels[row]) != n || strncmp(text, levels[row], n) != 0))
        ++row;
    for (int j = 0; j < n_features; ++j)
        x[j] = features[row * n_features + j];
}}
"""
_CODE = """
/* What follows a number: the row of it, if it is one of the rising codes, else the last row. */
static inline void {name}_code(double value, const double *codes, int n_codes, const double *features, int n_features, double *x)
{{
    int row = 0, end = n_codes;
    while (row < end) {{
        const int middle = row + (end - row) / 2;
        if (codes[middle] < value)
            row = middle + 1;
        else
            end = middle;
    }}
    if (row < n_codes && codes[row] != value)
        row = n_codes;
    for (int j = 0; j < n_features; ++j)
        x[j] = features[row * n_features + j];
}}
"""
_DATE = """
/* Reads a number of at most `most` digits that lies between low and high; fewer digits if those alone do. */
static inline int {name}_digits(const char **text, int least, int most, int low, int high, int *value)
{{
    for (int n = most; n >= least; --n) {{
        int i = 0, found = 0;
        for (; i < n && (*text)[i] >= '0' && (*text)[i] <= '9'; ++i)
            found = 10 * found + ((*text)[i] - '0');
        if (i == n && found >= low && found <= high) {{
            *text += n;
            *value = found;
            return 1;
        }}
    }}
    return 0;
}}

static inline int {name}_month(const char **text, int whole, int *value)
{{
    static const char *const names[] = {{"january", "february", "march", "april", "may", "june", "july", "august",
                                        "september", "october", "november", "december"}};
    for (int month = 0; month < 12; ++month) {{
        const int length = whole ? (int)strlen(names[month]) : 3;
        int i = 0;
        while (i < length && ((*text)[i] == names[month][i] || (*text)[i] == names[month][i] - 'a' + 'A'))
            ++i;
        if (i == length) {{
            *text += length;
            *value = month + 1;
            return 1;
        }}
    }}
    return 0;
}}

/* Reads text in a format of strptime; `least` is how many digits days, months and parts of times have at least. */
static inline const char *{name}_scan(const char *text, const char *format, int least, int *when)
{{
    for (; *format != '\\0'; ++format) {{
        int ok = 0;
        if (*format == ' ') {{
            ok = strchr(" \\t\\r\\n\\f\\v", *text) != NULL && *text != '\\0';
            text += strspn(text, " \\t\\r\\n\\f\\v");
        }} else if (*format != '%') {{
            ok = *text == *format;
            text += ok;
        }} else switch (*++format) {{
        case 'Y': ok = {name}_digits(&text, 4, 4, 1, 9999, when); break;
        case 'y':
            ok = {name}_digits(&text, 2, 2, 0, 99, when);
            when[0] += when[0] < 69 ? 2000 : 1900;
            break;
        case 'm': ok = {name}_digits(&text, least, 2, 1, 12, when + 1); break;
        case 'b': ok = {name}_month(&text, 0, when + 1); break;
        case 'B': ok = {name}_month(&text, 1, when + 1); break;
        case 'd': ok = {name}_digits(&text, least, 2, 1, 31, when + 2); break;
        case 'H': ok = {name}_digits(&text, least, 2, 0, 23, when + 3); break;
        case 'M': ok = {name}_digits(&text, least, 2, 0, 59, when + 4); break;
        case 'S': ok = {name}_digits(&text, least, 2, 0, 59, when + 5); break;
        }}
        if (!ok)
            return NULL;
    }}
    return text;
}}

/* A date, ISO's or in the given format: days since 1970, month, weekday (Monday is 0), hour. Zones are not looked at. */
static inline int {name}_date(const char *text, const char *format, double *parts)
{{
    static const int lengths[] = {{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}};
    int when[6] = {{1970, 1, 1, 0, 0, 0}}; /* year, month, day, hour, minute, second */
    double second = 0.0, unit = 1.0;
    const char *end;
    if ({name}_is_missing(text))
        return 0;
    text += strspn(text, " \\t\\r\\n\\f\\v");
    end = {name}_scan(text, "%Y-%m-%d", 2, when);
    if (end != NULL && (*end == 'T' || *end == ' ') && end[1] >= '0' && end[1] <= '9')
        end = {name}_scan(end + 1, "%H:%M", 2, when);
    if (end != NULL && end - text > 10 && *end == ':') {{
        end = {name}_scan(end, ":%S", 2, when);
        second = when[5];
        if (end != NULL && (*end == '.' || *end == ','))
            while (*++end >= '0' && *end <= '9')
                second += (unit /= 10.0) * (*end - '0');
    }}
    if (end != NULL && end - text > 10) /* a zone */
        end += *end == 'Z' ? 1 : *end == '+' || *end == '-' ? strspn(end, "+-:.0123456789") : 0;
    if (end == NULL && format != NULL) {{
        when[1] = when[2] = 1;
        when[3] = when[4] = when[5] = 0;
        end = {name}_scan(text, format, 1, when);
        second = when[5];
    }}
    if (end == NULL || end[strspn(end, " \\t\\r\\n\\f\\v")] != '\\0')
        return 0;
    const int year = when[0], month = when[1], leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (when[2] > lengths[month - 1] + (month == 2 && leap))
        return 0;
    const int y = month > 2 ? year : year - 1, m = (month + 9) % 12; /* years that begin in March */
    const long days = 365L * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + when[2] - 719469;
    parts[0] = (double)days + (when[3] * 3600 + when[4] * 60 + second) / 86400.0;
    parts[1] = month;
    parts[2] = (double)(((days + 3) % 7 + 7) % 7);
    parts[3] = when[3];
    return 1;
}}
"""


def to_c_with_preparation(
    preparation: Preparation,
    network: Network | Several,
    classes: Sequence[Any],
    *,
    name: str = "pbdn",
    counts: bool = False,
) -> str:
    """Text of a header whose functions take a ``name_row``: numbers as double, texts and dates as strings.

    ``name_prepare`` makes the features, and ``name_score`` is the recorded point of the network.
    """
    check_name(name)
    used = preparation.used
    fields = _fields([plan.name for plan in used], f"{name.upper()}_")
    members = [_member(plan, field) for plan, field in zip(used, fields, strict=True)]
    tables, lines, at = [], [], 0
    for j, (plan, field) in enumerate(zip(used, fields, strict=True)):
        if plan.kind == "category" or plan.after:
            tables.append(_tables(plan, name, j))
        lines.append(_column(plan, f"row->{field}", name, j, at))
        at += len(plan.missing)
    kinds = {plan.kind for plan in used}
    code = _ROW.format(name=name, members="".join(members))
    if kinds - {"number"}:
        size = max(map(len, MISSING)) + 2
        code += _MISSING.format(name=name, words=strings(sorted(MISSING)), size=size)
    code += _CATEGORY.format(name=name) if "category" in kinds else ""
    code += _CODE.format(name=name) if any(plan.after for plan in used) else ""
    code += _DATE.format(name=name) if "date" in kinds else ""
    date = f"    double date[{len(DATE_PARTS)}];\n" if "date" in kinds else ""
    code += "".join(tables)
    code += f"\nstatic inline void {name}_prepare(const {name}_row *row, double *x)\n{{\n{date}{''.join(lines)}}}\n"
    return to_c(network, classes, preparation.feature_names, name=name, preparation=code, counts=counts)


def _fields(names: Sequence[str], macros: str) -> list[str]:
    """Names of members: letters, digits and _, each once; none begins as ``macros`` do."""
    fields: list[str] = []
    for name in names:
        ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        base = re.sub(r"[^A-Za-z0-9]+", "_", ascii_only).strip("_")[:50] or "column"
        if base[0].isdigit():
            base = f"column_{base}"
        elif base in RESERVED or base.startswith(macros):
            base += "_"
        field, count = base, 2
        while field in fields:
            field, count = f"{base}_{count}", count + 1
        fields.append(field)
    return fields


def _member(plan: ColumnPlan, field: str) -> str:
    if plan.kind == "number":
        what = {"time": "hours of the time, 14:05 is 14.083", "%": "12.5% is 12.5", "$": "$12.50 is 12.5"}
        how = what.get(plan.style) or what.get(plan.style[-1]) or "number"
        return f"    double {field}; /* {comment(plan.name)}: {how} */\n"
    how = "text" if plan.kind == "category" else f"date such as {_date_example(plan)}"
    return f"    const char *{field}; /* {comment(plan.name)}: {how} */\n"


def _date_example(plan: ColumnPlan) -> str:
    return "2024-03-31" if plan.style == "iso" else comment(f"2024-03-31 or {plan.expected}")


def _tables(plan: ColumnPlan, name: str, j: int) -> str:
    if plan.after:
        told = numbers([value for row in (*plan.after.values(), plan.rest) for value in row])
        return (
            f"\nstatic const double {name}_codes_{j}[] = {numbers(list(plan.after))};\n"
            f"static const double {name}_told_{j}[] = {told};\n"
        )
    if any("\0" in level for level in plan.spelled):
        raise InvalidInputError(f"A category of {plan.name!r} holds a NUL, which strings of C cannot hold: rename it.")
    rows = [*plan.spelled.values(), plan.rest, plan.missing]
    features = numbers([value for row in rows for value in row])
    return (
        f"\nstatic const char *const {name}_levels_{j}[] = {strings(list(plan.spelled))};\n"
        f"static const double {name}_categories_{j}[] = {features};\n"
    )


def _column(plan: ColumnPlan, cell: str, name: str, j: int, at: int) -> str:
    """Statements that make the features of a column, the first of which is x[at]."""
    if plan.kind == "category":
        table = f"{name}_levels_{j}, {len(plan.spelled)}, {name}_categories_{j}, {len(plan.rest)}"
        return f"    {name}_category({cell}, {table}, x + {at});\n"
    if plan.kind == "date":
        date_tokens("%Y-%m-%d" if plan.style == "iso" else plan.style, "C")
        form = "NULL" if plan.style == "iso" else string_literal(plan.style)
        there = f"{name}_date({cell}, {form}, date)"
        own = [f"date[{DATE_PARTS.index(part)}]" for part in plan.parts]
    else:
        there, own = f"isfinite({cell})", [cell]
    values = own if plan.after else [*own, *map(number, plan.rest)]
    first = "".join(f"        x[{at + i}] = {value};\n" for i, value in enumerate(values))
    if plan.after:
        table = f"{name}_codes_{j}, {len(plan.after)}, {name}_told_{j}, {len(plan.rest)}"
        first += f"        {name}_code({cell}, {table}, x + {at + 1});\n"
    second = "".join(f"        x[{at + i}] = {number(value)};\n" for i, value in enumerate(plan.missing))
    return f"    if ({there}) {{\n{first}    }} else {{\n{second}    }}\n"
