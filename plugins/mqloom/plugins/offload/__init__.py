"""Whom to move to another broker, given a profile of what subscribers take (paper 000, section 5).

How the modules follow from each other:

    outlook         what a broker would be like after each of many moves: estimates as arrays
    aims            what is to become smaller, when it is small enough, and what may not happen on the way
    ledger          who has been moved so far, and what that does to both brokers
    report_cards    for every group at once, how many of its clients to move, and what comes of it
    input_offload, match_offload, output_offload, random_offload     the plugins, one for each way to choose

docs/balancing.md explains the four with an example.
"""
