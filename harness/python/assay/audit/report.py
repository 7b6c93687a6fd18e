"""What is said of an audit: lines for a terminal, and a page."""
import json
import os

from assay.audit import store
from assay.audit.changes import CHANGES

MOST_LISTED = 20  # sites in the terminal; the page has all


def short(value):
    return "?" if value is None else f"{value:.3g}"


def place(site):
    helper = site["helper"]
    return f"{site['file']}:{site['line']}" + (f" by {helper['file']}:{helper['line']} ({helper['function']})"
                                               if helper else "")


def why(site):
    """The kinds of blindness of a site, each as (what it is, what cures it). Kinds that its figures show;
    none of a sharp one."""
    found, passed, worst = [], store.passes(site), site["worst"] or {}
    atol, rtol, middle, most = (worst.get(n) for n in ("atol", "rtol", "median", "most"))
    seen = f"the largest error seen is {short(site['error'])}" if site["error"] is not None else ""
    if atol is not None and most and atol >= most:
        found.append(
            (f"atol={short(atol)} is above the largest |expected|, {short(most)}: zeros are within it",
             f"atol must follow the data: a small part of the median, {short(middle)}; {seen}"))
    elif atol is not None and middle and atol >= middle:
        found.append((
            f"atol={short(atol)} is {short(atol / middle)} x the median |expected|, {short(middle)}: "
            "half of the elements may be anything near zero",
            f"atol below the median; {seen}"))
    if rtol is not None and rtol >= 1:
        found.append((f"rtol={short(rtol)}: a result of zero is within a relative error of 1",
                      f"rtol below 1, by far; {seen}"))
    if passed and site["measure"]:
        found.append((
            "a share of elements, a cosine, an SNR or a ratio of norms: a whole row may be anything "
            "as long as the rest is right",
            "compare each row by itself (the worst row decides), or each element"))
    if passed and not found:
        dull = all(c in store.DULL for c in passed)
        what = f"atol={short(atol)}, rtol={short(rtol)} against a median of {short(middle)}"
        if atol is None and rtol is None:
            what = "the tolerance"
        found.append(
            (f"{what} is wider than what {'an element or 2 % of scale' if dull else 'a wrong row'} changes",
             f"a smaller tolerance; {seen}" if seen else "a smaller tolerance"))
    empty = [c for c, (asked, _, nothing) in site["changes"].items() if nothing and not asked]
    if empty:
        found.append((f"the data show nothing of: {', '.join(CHANGES.get(c, c) for c in empty)}",
                      "inputs whose rows, heads and last elements differ and are as large as the rest"))
    return found


def shares(site):
    """'name asked/passed' of the changes that pass at some hit, those that pass at all of them first."""
    rows = [(c, *site["changes"][c][:2]) for c in CHANGES if c in site["changes"] and site["changes"][c][1]]
    whole = [CHANGES[c] for c, asked, passed in rows if passed == asked]
    part = [f"{CHANGES[c]} ({passed} of {asked})" for c, asked, passed in rows if passed < asked]
    return ", ".join(whole + part)


def summary(audit):
    """Counts of an audit's sites by state and grade, and of each change."""
    sites = audit["sites"]
    by_state = {
        name: [s for s in sites if store.state(s) == name]
        for name in ("tolerant", "exact", "zeros", "not asked")
    }
    grades = {name: sum(store.grade(s) == name for s in by_state["tolerant"]) for name in store.GRADES}
    rows = {}
    for change in CHANGES:
        asked = [s for s in by_state["tolerant"] if s["changes"].get(change, [0])[0]]
        rows[change] = {
            "sites": len(asked), "all": sum(change in store.passes(s) for s in asked),
            "any": sum(s["changes"][change][1] > 0 for s in asked)
        }
    ratios = [
        s["worst"]["ratio"] for s in by_state["tolerant"] if s["worst"] and s["worst"]["ratio"] is not None
    ]
    return {
        "sites": len(sites), "hits": sum(s["hits"] for s in sites) + audit.get("unseen", 0), "asked": sum(
            s["asked"] for s in sites), "states": {name: len(found) for name, found in by_state.items()},
        "grades": grades, "changes": rows, "held_back": sum(
            1 for s in sites if s["held_back"] and not s["asked"]), "atol_above_median": sum(
                r > 1 for r in ratios), "worst_ratio": max(ratios, default=None)
    }


def ranked(audit):
    """Tolerant sites that let something pass, the blindest first; of equals that with more hits."""
    found = [s for s in audit["sites"] if store.state(s) == "tolerant" and store.blindness(s) > 0]
    return sorted(found, key=lambda s: (-store.blindness(s), -s["hits"], s["file"], s["line"]))


def lines(audit, verdict=None, most=MOST_LISTED):
    """What a terminal is told."""
    total, states = summary(audit), summary(audit)["states"]
    yield (
        f"{total['sites']} places compare, {total['hits']} times; asked {total['asked']} times. "
        f"{states['tolerant']} with a tolerance, "
        f"{states['exact']} exactly, {states['zeros']} against zeros, {states['not asked']} not asked")
    if states["tolerant"]:
        yield "of those with a tolerance: " + ", ".join(f"{total['grades'][name]} {name} ({what})"
                                                        for name, what in store.GRADES.items())
        told = [
            f"{CHANGES[c]} {row['all']} of {row['sites']}" for c, row in total["changes"].items()
            if row["all"]
        ]
        if told:
            yield "passed wherever asked: " + ", ".join(told)
    found = ranked(audit)
    for site in found[:most]:
        yield f"{place(site)}: {store.grade(site)}"
        yield f"    {site['code'][:100]}"
        yield f"    passes: {shares(site)}; asked {site['asked']} of {site['hits']} hits"
        for what, cure in why(site):
            yield f"    {what}"
            yield f"      cure: {cure}"
        if site["side"] == "":
            yield "    which side is the reference its words do not say: the first was changed"
        if site.get("reference"):
            ref = site["reference"]
            yield (
                f"    its reference is further from its own formula in f64 than what it judges at "
                f"{ref['further']} of {ref['judged']} hits"
                + (f", up to {short(ref['worst'])} x" if ref["further"] else ""))
    if len(found) > most:
        yield f"and {len(found) - most} more, in the report"
    references = [s for s in audit["sites"] if s.get("reference")]
    if references:
        further = [s for s in references if s["reference"]["further"]]
        yield (
            f"references held against their own formula in f64: {len(references)} places; "
            f"further off than what they judge: {len(further)}"
        )
        for site in sorted(further, key=lambda s: -s["reference"]["worst"])[:most]:
            ref = site["reference"]
            yield (f"    {place(site)}: at {ref['further']} of {ref['judged']} hits, up to "
                   f"{short(ref['worst'])} x")
    if total["held_back"]:
        yield f"{total['held_back']} places were not asked, to stay within --assay-audit-budget"
    if audit.get("candidates"):
        yield ("functions of the suite in which no comparison was seen, and which assay_audit_helpers could "
               "name: " + ", ".join(audit["candidates"][:8]))
    for name, count in sorted(audit["errors"].items(), key=lambda e: -e[1])[:8]:
        yield f"the audit itself failed, {count} times: {name}"
    own = audit["seconds"] - audit["audit_seconds"]
    if own > 0:
        yield (f"the audit took {audit['audit_seconds']:.1f} s of processor time, "
               f"{100 * audit['audit_seconds'] / own:.0f} % of the session's own")
    if verdict is not None:
        yield from gate(verdict)


def gate(verdict):
    """What a comparison with an earlier audit says."""
    if verdict.get("failed"):
        yield "against the earlier report: could not be compared"
        return
    yield "against the earlier report: " + ", ".join(f"{len(verdict[name])} {name}"
                                                     for name in ("blinder", "sharper", "new", "gone"))
    for before, after, changed in verdict["blinder"]:
        yield f"BLINDER {place(after)}: now passes {', '.join(CHANGES.get(c, c) for c in changed)}"
        yield f"    was {before['code'][:120]}"
        yield f"    is  {after['code'][:120]}"
    for _, after, changed in verdict["sharper"]:
        yield f"sharper {place(after)}: no longer passes {', '.join(CHANGES.get(c, c) for c in changed)}"
    for site in verdict["new"]:
        if store.state(site) == "tolerant" and store.grade(site) in ("blind", "partly blind"):
            yield f"new and {store.grade(site)}: {place(site)}"


def page_beside(path):
    return (path[:-len(".json")] if path.endswith(".json") else path) + ".html"


def _part(name):
    """A file of reports/page: of the sources, or of an installation."""
    here = os.path.dirname(os.path.realpath(__file__))
    places = [
        os.path.join(here, *[os.pardir] * 4, "reports", "page", name),
        os.path.join(here, *[os.pardir] * 3, "page", name),
        os.path.join(here, os.pardir, "lib", "assay", "page", name)
    ]
    found = next((path for path in places if os.path.exists(path)), None)
    if found is None:
        raise FileNotFoundError(f"no {name} of the pages in this installation")
    with open(found, encoding="utf-8") as file:
        return file.read()


def page(audit, verdict=None):
    """One HTML file with everything in it."""
    sites = [
        dict(site,
             place=place(site),
             grade=store.grade(site) if store.state(site) == "tolerant" else store.state(site),
             passes=shares(site),
             why=why(site) if store.state(site) == "tolerant" else [],
             score=store.blindness(site)) for site in audit["sites"]
    ]
    for site in sites:
        site.pop("tests", None)
    order = {
        id(s): i
        for i, s in enumerate(sorted(sites, key=lambda s: (-s["score"], -s["hits"], s["file"], s["line"])))
    }
    sites.sort(key=lambda s: order[id(s)])
    data = {
        "title": "assay: what the comparisons would have let pass", "names": CHANGES,
        "summary": summary(audit), "sites": sites, "lines": list(lines(
            audit, None, 0)), "gate": list(gate(verdict)) if verdict else [],
        "facts": [[n, str(audit[n])] for n in ("command", "date", "python") if audit.get(n)]
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    # The script first, for the data may hold anything.
    return _part("page.html").replace("/*SCRIPT*/", _part("audit.js")).replace("/*DATA*/null", text, 1)


def write_page(path, audit, verdict=None):
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(page(audit, verdict))
