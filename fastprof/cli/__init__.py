"""The command ``fastprof``: one file a verb; standard output is data, standard error is talk."""
