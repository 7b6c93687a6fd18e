"""pytest --assay-audit: what the comparisons of a test suite would have let pass. See docs/audit.md.

changes: results with one thing wrong; sites: where a comparison stands; core: a comparison asked again;
hooks: which are; followed: those whose threshold comes later; store: what is kept, added up and compared;
report: what is said of it."""
