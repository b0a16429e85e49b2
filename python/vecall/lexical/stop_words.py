"""Stop words by language: words without meaning for a search.

Stop words are removed from memories and from queries, before stemming. The lists
contain closed-class words: articles, pronouns, auxiliaries, prepositions and question
words. They are written without accents, as `normalise` returns them. The lists contain
no names of things, people, times or places, and not "may", which is also a month. The
detection of a text's language uses the same lists.
"""

from __future__ import annotations

ENGLISH = frozenset(
    """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs
    themselves
    am is are was were be been being do does did doing done has have had having
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

GERMAN = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem
    keiner ich mich mir mein meine meinen meinem meiner du dich dir dein deine deinen
    deinem deiner er ihn ihm sein seine seinen seinem seiner sie ihr ihre ihren ihrem
    ihrer es wir uns unser unsere unseren unserem unserer euch euer sich man
    bin bist ist sind seid war warst waren wart gewesen habe hab hast hat haben habt
    hatte hatten hattest werde wirst wird werden wurde wurden worden wurdest kann kannst
    konnen konnte konnten konnt muss musst mussen musste soll sollst sollen sollte
    sollten will willst wollen wollte darf durfen mag mochte mochten
    und oder aber denn sondern wenn dass weil ob als wie da damit obwohl
    in im an am auf aus bei beim bis durch fur gegen mit nach ohne seit uber um unter
    von vom vor zu zum zur zwischen hinter neben ins
    nicht nur noch auch schon so sehr mal ja doch nein hier dort dann wieder immer etwa
    was wer wen wem wessen welche welcher welches welchen welchem wann wo woher wohin
    warum wieso weshalb wofur womit woran worauf woruber wozu wieviel viel viele
    dieser diese dieses diesen diesem jener alle alles allem andere anderen
    """.split()
)

SPANISH = frozenset(
    """
    el la los las un una unos unas lo al del yo me mi mis mio tu te ti tus tuyo usted
    ustedes el ella ellos ellas le les se su sus suyo nos nosotros nuestro nuestra
    nuestros nuestras os vosotros vuestro
    soy eres es somos son era eras eran fue fui fueron fuiste sido ser estoy estas esta
    estamos estan estaba estaban estuvo estar he has ha hemos han habia habian hay haber
    tengo tienes tiene tenemos tienen tenia tener puedo puedes puede podemos pueden
    podria voy vas va vamos van iba
    y e o u pero sino si porque pues aunque que como cuando donde mientras
    de a en por para con sin sobre entre hasta desde hacia segun contra tras durante
    no ni ya muy mas menos tambien tampoco solo asi aqui alli ahora siempre nunca todo
    toda todos todas otro otra otros otras algo alguien alguno alguna cada mismo misma
    cual cuales quien quienes cuanto cuanta cuantos cuantas cuyo este estos esto ese esa
    esos esas eso aquel aquella ese
    """.split()
)

FRENCH = frozenset(
    """
    le la les un une des du de d l au aux je j me m moi mon ma mes tu te t toi ton ta
    tes il elle on lui son sa ses se s nous notre nos vous votre vos ils elles leur
    leurs eux y en ce c cet cette ces ca cela
    suis es est sommes etes sont etais etait etaient ete etre ai as a avons avez ont
    avais avait avaient avoir vais vas va allons vont peux peut pouvez peuvent dois doit
    et ou mais donc car ni si que qui quoi dont quand comment pourquoi combien comme
    dans par pour sur sous avec sans entre vers chez contre depuis pendant avant apres
    ne pas plus moins tres aussi deja encore toujours jamais ici tout toute tous toutes
    autre autres meme memes quel quelle quels quelles lequel laquelle qu n
    """.split()
)

ITALIAN = frozenset(
    """
    il lo la i gli le l un uno una del dello della dei degli delle al allo alla ai agli
    alle dal dalla dai dalle nel nello nella nei nelle sul sulla sui sulle
    io mi me mio mia miei mie tu ti te tuo tua tuoi tue lui lei si suo sua suoi sue noi
    ci nostro nostra nostri voi vi vostro vostra loro ne
    sono sei e siamo siete era eri erano stato stata essere ho hai ha abbiamo avete
    hanno avevo aveva avevano avere posso puoi puo possono devo deve vado va
    o ma se che chi cui perche quando dove come quanto quanta quanti quante quale quali
    anche pero di a da in con su per tra fra senza fino verso
    non piu molto gia ancora sempre mai solo qui tutto tutta tutti tutte altro altra
    altri altre stesso stessa questo questa questi queste quello quella quelli quelle
    cosa
    """.split()
)

PORTUGUESE = frozenset(
    """
    o a os as um uma uns umas do da dos das no na nos nas ao aos pelo pela pelos pelas
    num numa eu me mim meu minha meus minhas tu te ti teu tua teus tuas voce voces ele
    ela eles elas lhe lhes se seu sua seus suas nosso nossa nossos nossas
    sou es e somos sao era eram foi fui foram sido ser estou esta estamos estao estava
    estavam estar tenho tem temos tinha tinham ter ha houve posso pode podem vou vai vao
    ia ou mas que quem qual quais quando onde como quanto quanta quantos quantas porque
    se de em por para com sem sobre entre ate desde
    nao mais menos muito ja ainda sempre nunca so tambem aqui ali tudo todo toda todos
    todas outro outra outros outras mesmo mesma este esta estes estas isto esse essa
    esses essas isso aquele aquela aquilo
    """.split()
)

RUSSIAN = frozenset(
    """
    я меня мне мной ты тебя тебе тобой он его ему им нем она ее ей ею нее ней оно мы нас
    нам нами вы вас вам вами они их ними них себя себе собой мой моя мое мои моего моей
    моему моим моих мою твой твоя твое твои твоего твоей твою твоих наш наша наше наши
    нашего нашей нашу ваш ваша ваше ваши вашего вашей свой своя свое свои своего своей
    свою своих
    этот эта это эти этого этой этому этим этих эту тот та то те того той тому тем тех
    ту такой такая такое такие
    и а но или да же бы ли если что чтобы как так потому когда где пока хотя
    в во на с со к ко у о об обо от до из за по под над при про для без через между
    перед после около ради
    не ни нет уже еще только тоже также вот там тут здесь очень был была было были быть
    буду будет будут будем есть
    кто кого кому кем чем чего чему какой какая какое какие какого какой каком каким
    каких какую куда откуда почему зачем сколько чей чья чье чьи который которая которое
    которые которого которой ну бы
    """.split()
)

ARABIC = frozenset(
    """
    في من الى إلى على عن مع منذ حتى عند عندي عندك بين بعد قبل تحت فوق ضد حول خلال دون
    بدون هذا هذه ذلك تلك هؤلاء هنا هناك الذي التي الذين اللواتي
    انا أنا انت أنت انتم أنتم نحن هو هي هم هن لي لك له لها لنا لهم بي بك به بها بنا بهم
    و ف ب ل او أو ام أم ثم لكن بل ان أن إن اذا إذا لو لان لأن كي قد لقد سوف
    لا لم لن ليس ليست ما ماذا من متى اين أين كيف لماذا كم اي أي هل
    كان كانت كنت كانوا يكون تكون اكون أكون كل بعض غير ايضا أيضا جدا فقط نعم
    """.split()
)

GREEK = frozenset(
    """
    ο η το οι τα του της των τον την τους τις στο στη στον στην στα στους στις στου ενας
    ενα μια μιας ενος εγω εσυ εμεις εσεις αυτος αυτη αυτο αυτοι αυτες αυτα αυτον αυτην
    αυτου αυτης αυτων εμενα εσενα με σε μας σας μου σου μοι τος
    ειμαι εισαι ειναι ειμαστε ειστε ημουν ησουν ηταν ημασταν εχω εχεις εχει εχουμε εχετε
    εχουν ειχα ειχες ειχε ειχαμε ειχαν θα να ας εχοντας
    και κι η ειτε αλλα ομως αν οταν οτι πως που γιατι επειδη αφου ενω ωστε για απο
    προς μεχρι χωρις μετα πριν κατα παρα ανα ως σαν μεσα πανω κατω
    δεν μην μη οχι ναι πολυ πιο μονο επισης ακομα ηδη εδω εκει ετσι τωρα
    τι ποιος ποια ποιο ποιοι ποιες ποιον ποιαν ποιου ποιας ποιων ποτε ποσο ποσος ποση
    ποσοι ποσες ποσα οποιος οποια οποιο οποιοι οποιες καθε ολα ολοι ολες ολο ολη καποιος
    καποια καποιο αλλος αλλη αλλο εκεινος εκεινη εκεινο
    """.split()
)

HINDI = frozenset(
    """
    मैं मैंने मुझे मुझको मुझसे मेरा मेरी मेरे हम हमने हमें हमको हमारा हमारी हमारे तू तुम तुमने तुम्हें तुम्हारा
    तुम्हारी तुम्हारे आप आपने आपको आपका आपकी आपके वह वे वो यह ये उस उसने उसे उसको उसका उसकी उसके
    उन उन्होंने उन्हें उनका उनकी उनके इस इसने इसे इसका इसकी इसके इन इन्हें इनका इनकी इनके अपना अपनी
    अपने खुद
    है हैं हूँ हो था थी थे थीं होता होती होते हुआ हुई हुए होगा होगी होंगे रहा रही रहे गया गई गए गयी
    चुका चुकी चुके
    का की के को में से पर ने तक लिए साथ बाद पहले बीच द्वारा वाला वाली वाले
    और या लेकिन मगर पर तो भी ही कि अगर जब तब जो जिस जिसने जिसे जिसका जिसकी जिसके क्योंकि इसलिए
    न नहीं मत हाँ अब यहाँ वहाँ बहुत सब सभी कुछ कोई किसी हर एक
    क्या कौन कौनसा किस किसने किसे किसको किसका किसकी किसके कहाँ कब क्यों कैसे कैसा कैसी कितना कितनी
    कितने सा सी
    """.split()
)

TURKISH = frozenset(
    """
    ben sen biz siz onlar beni bana bende benden benim seni sana sende senden senin onu
    ona onda ondan onun bizi bize bizde bizden bizim sizi size sizde sizden sizin onlari
    onlara onlarin bu su bunu buna bunda bundan bunun sunu suna bunlar sunlar
    ve veya ya da de ki mi mu ama fakat ancak cunku eger ise ile icin gibi kadar gore
    daha en cok az hem hic her bir sey
    degil var yok idi imis olan olarak oldu olur olsa
    ne neyi neye neden nasil nicin niye kim kimi kime kimin kimden hangi hangisi nerede
    nereye nereden nereli kac
    """.split()
)

VIETNAMESE = frozenset(
    """
    tôi tao tớ mình ta chúng bạn anh chị em ông bà cô chú nó họ hắn ai
    là thì mà và hay hoặc nhưng nếu vì nên khi lúc thế vậy cũng đã đang sẽ vẫn còn chưa
    không chẳng được bị có của cho với từ đến tới ở tại trong ngoài trên dưới về theo
    do bởi để
    này kia đó ấy đây nào gì sao đâu bao mấy nhiêu các những một mọi mỗi cái con chiếc
    rất quá lắm nhé nhỉ ạ à ơi
    """.split()
)
"""Vietnamese stop words with their tones, as in the result of `toned_words`."""

STOP_WORDS: dict[str, frozenset[str]] = {
    "english": ENGLISH,
    "german": GERMAN,
    "spanish": SPANISH,
    "french": FRENCH,
    "italian": ITALIAN,
    "portuguese": PORTUGUESE,
    "turkish": TURKISH,
}
"""The stop words of the languages in Latin letters, by Snowball's name. The first
language wins ties."""
