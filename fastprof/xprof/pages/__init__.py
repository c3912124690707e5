"""Reports as the JSON that XProf's page of the same tool reads.

One module a tool, each with ``answer(report)``, which gives an object for ``json.dumps``. XProf's quirks are only here:
what it leaves out, how it rounds, which of its fields hold what. A report itself has every step and is right;
docs/xprof-differences.md lists the differences."""
