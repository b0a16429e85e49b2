"""English words with irregular forms that no stemmer unites, such as go and went.

A question often has the base form ("what did she buy") and its answer another form ("I
bought"). The list contains forms that belong to one word only. The exceptions are
"saw", "left", "found" and "felt": they are also words of their own, but improve
searches more as forms.
"""

from __future__ import annotations

_FORMS = """
begin began begun; bite bitten; blow blew blown; break broke broken; bring brought;
build built; burn burnt; buy bought; catch caught; choose chose chosen; come came;
deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk;
drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought;
find found; fly flew flown; forbid forbade forbidden; forget forgot forgotten;
forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given;
go went gone goes; grow grew grown; hang hung; hear heard; hide hid hidden; hold held;
keep kept; kneel knelt; know knew known; lay laid; lead led; learn learnt; leave left;
lend lent; light lit; lose lost; make made; mean meant; meet met; pay paid;
ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen;
seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot;
show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept;
slide slid; speak spoke spoken; spend spent; spill spilt; spin spun; stand stood;
steal stole stolen; stick stuck; strike struck; swear swore sworn; sweep swept;
swell swollen; swim swam swum; swing swung; take took taken; teach taught;
tear tore torn; tell told; think thought; throw threw thrown;
understand understood; wake woke woken; wear wore worn; weep wept; win won;
withdraw withdrew withdrawn; write wrote written;
child children; man men; woman women; foot feet; tooth teeth; mouse mice; goose geese;
person people; wife wives; knife knives; leaf leaves; half halves;
shelf shelves; wolf wolves; loaf loaves; thief thieves;
good better best; bad worse worst; far farther farthest
"""

PLAIN_FORMS: dict[str, str] = {
    form: plain
    for plain, *forms in (entry.split() for entry in _FORMS.split(";"))
    for form in forms
}
"""Maps an irregular form to the base form of its word."""
