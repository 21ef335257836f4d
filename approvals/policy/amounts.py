"""Amounts of money in the arguments of a tool: the digits that were sent, the currency, and whether the unit is clear.

Nothing is rounded. An amount whose unit or currency is not certain says so.
"""

import re
from decimal import Decimal

from .field_names import role_of, words_of
from .hidden_characters import hidden_in
from .phrases import Phrase
from .phrases import gettext_noop as _
from .shell_words import names

WHOLE_UNITS = names("BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF UGX VND VUV XAF XOF XPF ISK")
THOUSANDTHS = names("BHD IQD JOD KWD LYD OMR TND")
CURRENCIES = (
    WHOLE_UNITS
    | THOUSANDTHS
    | names(
        """
        AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP
        CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR
        JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO
        NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
        THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD YER ZAR ZMW ZWG
        """
    )
)
MINOR, MAJOR, UNCLEAR = "minor", "major", "unclear"
MINOR_WORDS = names("cents cent minor pence pennies ore øre centimes centavos centimos kopeks копеек subunits")
MAJOR_WORDS = {"euro": "EUR", "euros": "EUR", "dollar": "", "dollars": "", "pounds": "GBP", "yen": "JPY", "major": ""}
NUMBER = re.compile(r"-?\d{1,60}(?:\.\d{1,60})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
INNER = ("value", "amount", "units", "minor_units", "total")
MAX_DIGITS, MAX_WRITTEN = 30, 24

EXACT, SMALLEST = _("{number} {currency}"), _("{number} (in the currency's smallest unit)")
UNIT_UNCLEAR = _("{number} {currency} (unit unclear)")
NO_CURRENCY, ODD_CURRENCY = _("{number} (no currency)"), _("{number} (currency unclear)")
AS_WRITTEN, EXPANDED = _("“{number}” {currency}, as written"), _("{number} ({written})")
TOO_LONG, SEVERAL = _("a number of {count} digits"), _("{first} and {second}")
UNREADABLE = _("an amount that is no plain number")


def amount_of_fields(given, *, unit="", field="", currency=""):
    """Return the Phrase of the amount that arguments name, all of them if they name several; None if they name none.

    `unit`: what the server counts, "minor" or "major"; "" if nobody knows. `field`, `currency`: the argument with the
    amount, and the one with its currency, where they are known.
    """
    codes, any_code = _codes(given, currency), bool(_codes(given, ""))
    fields = [field] if field and field in given else [key for key in given if _is_amount(key, given[key], any_code)]
    found = [said for key in fields for said in _amounts(key, given[key], codes, unit)]
    found = list({str(said): said for said in found}.values())
    if not found:
        return None
    return found[0] if len(found) == 1 else Phrase.of(SEVERAL, first=found[0], second=found[1])


def currency_of_fields(given):
    """Return the currency that arguments name, as they write it, for comparing calls; "" if they name none."""
    inner = [value for value in given.values() if isinstance(value, dict)]
    return " ".join(sorted({code for each in (given, *inner) for code in _codes(each, "")}))


def _is_amount(key, value, any_code):
    """Return whether a field holds an amount; one called `value` does beside a currency, or as an object."""
    if role_of(key) != "amount" or value is None:
        return False
    return words_of(key)[-1:] != ["value"] or isinstance(value, dict) or any_code


def _codes(given, field):
    fields = [field] if field else [key for key in given if role_of(key) == "currency"]
    return list(dict.fromkeys(given[key] for key in fields if isinstance(given.get(key), str) and given[key]))


def _amounts(key, value, codes, unit):
    """Yield the Phrase of each amount in a field, which may be an object: `amount: {value, currency}`."""
    words = words_of(key)
    if set(words) & MINOR_WORDS:
        unit = MINOR
    named = [MAJOR_WORDS[word] for word in words if word in MAJOR_WORDS]
    named += [word.upper() for word in words[1:] if word.upper() in CURRENCIES]
    if isinstance(value, dict):
        codes = _codes(value, "") or codes
        inner = [name for name in INNER if name in value]
        yield from (_said(value[name], codes, MINOR if name == "minor_units" else unit) for name in inner)
        return
    if named:
        unit, codes = unit or MAJOR, codes or [name for name in named if name]
    yield _said(value, codes, unit)


def _said(value, codes, unit):
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return Phrase.of(UNREADABLE)
    text = str(value)
    code, odd = _code(codes)
    if not NUMBER.fullmatch(text):
        return _written(text, code, odd)
    number = Decimal(text)
    if abs(number.adjusted()) > MAX_DIGITS or len(text) > MAX_DIGITS:
        return _with_currency(Phrase.of(TOO_LONG, count=str(abs(number.adjusted()) + 1)), code, odd, "")
    places = 0 if code in WHOLE_UNITS else 3 if code in THOUSANDTHS else 2
    known = code in CURRENCIES
    is_whole = number == number.to_integral_value()
    if unit == MINOR and not odd and not (known and is_whole):
        return Phrase.of(SMALLEST, number=f"{_grouped(number)} {code}".strip())
    if unit == MINOR and not odd:
        return _with_currency(_number(Decimal(int(number)).scaleb(-places), text, places), code, odd, MAJOR)
    is_clear = unit == MAJOR or "." in text or (known and not places)
    return _with_currency(_number(number, text, places if "." in text else 0), code, odd, MAJOR if is_clear else "")


def _code(codes):
    """Return the currency as it may be shown, and whether it is one of several or none that anybody knows."""
    plain = [code.upper() for code in codes if re.fullmatch(r"[A-Za-z]{3,5}", code)]
    if len(plain) != len(codes) or len(set(plain)) > 1:
        return "", True
    return (plain[0], False) if plain else ("", False)


def _with_currency(number, code, odd, unit):
    if odd:
        return Phrase.of(ODD_CURRENCY, number=number)
    if not code:
        return Phrase.of(NO_CURRENCY, number=number)
    return Phrase.of(EXACT if unit else UNIT_UNCLEAR, number=number, currency=code)


def _number(number, text, places):
    """Return the digits of a number, with its own text behind them if that has an exponent."""
    said = _grouped(number, places)
    return Phrase.of(EXPANDED, number=said, written=text) if "e" in text.lower() else said


def _grouped(number, places=0):
    """Return all digits, in groups of three, with at least `places` behind the point."""
    plain = f"{number:,f}"
    whole, _point, rest = plain.partition(".")
    rest = rest.ljust(places, "0")
    return f"{whole}.{rest}" if rest else whole


def _written(text, code, odd):
    """Return an amount that is no plain number as it was written, if it can be shown; else that it is unclear."""
    short = text.strip()
    if not short or len(short) > MAX_WRITTEN or hidden_in(short) or not short.isascii():
        return Phrase.of(UNREADABLE)
    shown = re.sub(r"[^\w.,+\- $%]", "…", short)
    return Phrase.of(AS_WRITTEN, number=shown, currency="" if odd else code)
