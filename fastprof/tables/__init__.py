"""Tables: what are the tables of a session, and the events of one of its hosts?"""
