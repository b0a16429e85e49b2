"""The English words that carry no meaning for recall, question words included.

A stop word is removed before stemming, from memories and from queries alike. The list
is closed-class English (articles, pronouns, auxiliaries, prepositions, question words)
and the contractions of these; words that name things, people, times or places are never
on it; nor is "may", which is a month.
"""

from __future__ import annotations

STOP_WORDS: frozenset[str] = frozenset(
    """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs
    themselves
    am is are was were be been being do does did doing done have has had having
    will would shall should can could might must
    and or but nor if then else so because as until while than though although
    of at by for with about against between into through during before after above
    below to from up down in out on off over under again further
    here there all any both each few more most other some such no not only own same
    too very just also even ever
    what which who whom whose when where why how
    im ive id ill youre youve youd youll hes shes its weve were theyre theyve theyd
    theyll dont doesnt didnt isnt arent wasnt werent hasnt havent hadnt wont wouldnt
    cant cannot couldnt shouldnt mustnt lets thats whats whos wheres whens hows theres
    heres
    """.split()
)
