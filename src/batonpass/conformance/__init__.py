"""The conformance kit: grades workers and servers of the published protocol, each against its list of requirements.

Written from the published documents alone, with the standard library and
nothing else of Batonpass, so that what passes here would pass anywhere.
"""
