"""Finds messages that ask nothing of a memory: thanks, "write it shorter", code, sums.

The words are those that people say about the conversation itself, and not about their
lives, in twelve languages and some of others. They have no accents, see `_bare`. Stop
words are not repeated here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from vecall.lexical.stems import ALL_STOP_WORDS
from vecall.lexical.tokenizer import words
from vecall.text import normalise, without_marks

_SAID = """
    thanks thank thx ty tysm cheers appreciate appreciated grateful helpful helped
    perfect great good nice cool awesome brilliant amazing excellent wonderful lovely
    fantastic super well fine glad really many earlier now makes welcome sorry
    lifesaver lol haha hmm hm oh wow yep yeah yes yup nope nah ok okay okey sure
    exactly right correct wrong true agree agreed sense sounds sound hi hello hey hiya
    bye goodbye goodnight morning evening afternoon night day later soon see going
    please pls go ahead continue keep try start stop undo redo repeat proceed explain
    elaborate clarify show give tell say make use put add remove delete change take
    check mean instead write written rewrite rephrase reword shorten shorter short
    longer simpler simple formal informal polite friendly friendlier tone bullet
    bullets point points list table title summary summarise summarize summarised
    translate translation proofread grammar spelling fix improve polish paragraph
    paragraphs sentence sentences word words text version option first second third
    last next previous another example examples detail details detailed concise brief
    better clearer emoji emojis end turn without bit lot much english french german
    spanish italian portuguese russian turkish arabic chinese japanese korean dutch
    danke dankeschon vielen dank toll klasse prima perfekt gut gute guten guter gutes
    besser stimmt genau richtig falsch klar passt leider nett wirklich geholfen hallo
    moin servus morgen tag abend nacht schonen tschuss bald wiedersehen geht gehts
    gern gerne bitte weiter mach mache machen nimm erklar erklare erklaren zeig zeige
    gib sag einmal nochmal vorne mehr davon variante zweite erste letzte schreib
    schreibe kurzer langer einfacher formuliere formulier hoflicher formeller
    ubersetze ubersetz fass fasse zusammen satze satzen liste stichpunkte stichpunkten
    fachbegriffe deutsch englisch englische franzosisch franzosische spanisch
    spanische daraus korrigiere merci remercie beaucoup parfait genial top bien bravo
    bonjour bonsoir salut coucou bonne bon nuit journee soir bientot revoir oui accord
    dac vraiment exactement exact faux daccord continuez recommence reprends repete
    repeter plait svp fais fait faire donne donner montre explique expliquer exemple
    court courte long simplement formel reformule reformuler traduis traduire corrige
    corriger fautes orthographe texte phrase phrases resume resumer tableau anglais
    francais allemand espagnol gracias muchas mucho muchisimas agradezco perfecto vale
    bueno buenos buena buenas dias tardes noches hola tal adios luego pronto manana
    claro favor exacto correcto acuerdo parece gusta servido ayuda sigue siga continua
    hazlo haz hacer prueba intenta muestrame muestra dame explica explicar explicarlo
    explicame vez ejemplo corto corta largo amable tono traduce traducelo ortografia
    texto frase frases resumelo resumen lista tabla ingles espanol frances aleman
    grazie mille tante ringrazio ottimo perfetto bene bello buongiorno buonasera
    buonanotte ciao salve arrivederci sentiamo presto stai sta certo esatto giusto
    piace cosi continui avanti riprova fallo fai fare pure spiega spiegarlo spiegare
    spiegami meglio esempio mostrami dammi scrivi scrivilo breve lungo formale traduci
    traducilo correggi testo frasi riassumi riassunto elenco tabella inglese italiano
    francese tedesco favore obrigado obrigada ajuda perfeito otimo bom boa bem dia
    tarde noite logo tchau sim podes continuar novo tenta tentar faz fazer mostra
    curto menor resumir resumo reescreve escreve traduz traduzir portugues tesekkur
    tesekkurler ederim ol sagol harika guzel iyi gunaydin gunler geceler aksamlar
    merhaba selam naber nasilsin nasilsiniz gorusuruz hosca evet hayir tamam olmadi
    anladim lutfen dogru yanlis devam yap yapma tekrar aciklar misin acikla dene ornek
    goster ver yaz kisa uzun cumlede cumle ozetle ozet cevir ingilizceye turkceye
    duzelt metin resmi спасибо благодарю большое помогло помог отлично супер хорошо
    прекрасно круто замечательно привет здравствуите здравствуи доброе добрыи утро
    день вечер спокоинои ночи дела свидания конечно понятно ясно согласен согласна
    верно правильно неверно ладно океи ок пожалуиста сделаи сделаите продолжаи
    продолжаите продолжи объясни поясни раз снова попробуи покажи даи пример напиши
    перепиши короче длиннее проще подробнее формально переведи исправь ошибки текст
    тексте предложение предложения предложениях список таблицу англиискии русскии
    немецкии французскии итог شكرا جزيلا مشكور ممتاز رايع جيد جميل مرحبا اهلا سلام
    السلام عليكم صباح مساء الخير النور حالك تصبح خير وداعا حسنا تمام بالتاكيد طبعا
    صحيح خطا فضلك رجاء اكمل استمر تابع اشرح مره اخري حاول مثال اكتب اكتبها اكتبه اقصر
    اطول ابسط بشكل رسمي ترجم ترجمه صحح النص لخص الانجليزيه العربيه الفرنسيه المساعده
    مساعدتك ευχαριστω τελεια ωραια καλα καλημερα καλησπερα καληνυχτα γεια κανεισ σωστα
    λαθοσ ενταξει παρακαλω συνεχισε εξηγησε ξανα παλι δοκιμασε δειξε παραδειγμα γραψε
    γραψ συντομα μεταφρασε διορθωσε κειμενο περιληψη αγγλικα ελληνικα धन्यवाद शुक्रिया
    नमस्ते नमस्कार अच्छा अच्छे ठीक बढिया हा हां नही बिल्कुल बिलकुल सही गलत कृपया जारी
    रखो रखें फिर दोबारा समझाओ समझाइए उदाहरण क्यो लिखो छोटा छोटे लंबा करके अनुवाद
    अंग्रेजी हिंदी सुधारो cam xin chao buoi sang tam biet vang duoc roi tot dung sai
    tiep tuc giai thich lai viet ngan hon giup tieng đung đi 谢谢 多谢 非常感谢 太好了
    你好 您好 早上好 晚上好 晚安 再见 好的 好 不对 对 是的 不是 可以 明白了 明白
    知道了 继续 再试一次 再解释一遍 再 一遍 一次 请 写短一点 短一点 写 翻译成英文
    把它翻译成 翻译 总结一下 总结 详细一点 为什么 ありがとう ありがとうございます
    どうも 助かりました こんにちは こんばんは おはよう おはようございます
    おやすみなさい さようなら はい いいえ お願いします なるほど わかりました 了解
    続けて 続けてください もう一度 もう一度説明して もっと もっと短く書いて 短く 長く
    書いて ください 丁寧な言い方に直して 翻訳して 英語に まとめて なぜ 例 감사합니다
    고마워요 고마워 안녕하세요 안녕 좋은 아침이에요 좋아요 좋아 네 예 아니요 아니
    맞아요 알겠습니다 계속해 계속 주세요 다시 해 봐 설명해 더 짧게 길게 써 줘 번역해
    영어로 요약해 왜 예시 dziekuje slychac słychac dzieki bardzo czesc dobry wieczor
    tak nie prosze dalej jeszcze raz krocej przetlumacz bedankt wel hoi goedemorgen
    nee goed doe maar verder alsjeblieft nog keer opnieuw korter vertaal tack mycket
    hej nej bra never mind help one two three zwei drei iki absolutely definitely
    certainly indeed maybe perhaps possibly probably totally interesting funny fun
    works working ready finished ignore skip choose pick select answer reply response
    question message messages line lines half less louder casual professional british
    american rhyme poem heading headings intro introduction conclusion ending
    beginning step steps slowly quickly different differently way let everyone
    everybody congratulations oops whoops whatever fair enough yay aha gotcha
    understood noted k kk yea nvm np idk vielleicht sicher naturlich bestimmt problem
    einverstanden verstanden interessant fertig antwort antworte frage locker lockerer
    ausfuhrlicher absatz absatze schritt schritte langsam schneller beispiel nochmals
    genauer warte stopp schade lustig quatsch egal klingt schnelle tausend gruss
    grusse surement entendu compris reponse reponds etape etapes lentement paragraphe
    paragraphes attends tant pis drole monde infiniment voila quiza quizas seguro
    entendido interesante respuesta responde pregunta paso pasos despacio parrafo
    parrafos espera divertido gracioso empieza clases mil nuevo forse sicuro capito
    interessante risposta rispondi domanda passo passi piano paragrafo aspetta
    divertente inizia aiuto giornata serata chiaro rendilo talvez certeza entendi
    resposta pergunta passos devagar engracado comeca valeu beleza legal может
    возможно точно понял поняла интересно ответ ответь вопрос шаг шаги медленно абзац
    абзаца подожди забавно начни даваи думаю всем огромное сократи помощь belki kesin
    elbette ilginc cevap cevapla soru adim yavas paragraf bekle komik basla bence
    yardim yardimin dil dille olmaz ربما اكيد فهمت مفهوم موافق مهم جواب اجب سوال خطوه
    ببطء فقره انتظر مضحك ابدا اعطني جملتين ισωσ βεβαια καταλαβα απαντηση βημα περιμενε
    βοηθεια शायद समझ जवाब मदद सुबह रात्रि शुभ 没问题 也许 可能 当然 有意思 回答 问题
    一步一步 慢慢 等一下 开始 帮助 最近怎么样 改得 たぶん もちろん 面白い 答え 質問
    待って いいですね 見せて 아마 물론 재미있네요 대답 질문 잠깐만 도와줘서 정리해
"""

# Words that make a sum of a text with numbers, and words that may be beside them.
_OPERATIONS = """
    minus times divided multiplied equals percent sum square root sqrt solve convert
    calculate round add subtract multiply divide many much geteilt prozent wurzel
    rechne rechnen quadrat fois divise font fait racine convertis veces dividido raiz
    diviso fa vezes умножить разделить процент корень bolu carpi arti eksi eder yuzde
    kok يساوي ضرب قسمه زايد ناقص 除以 等于多少 是多少 等于 多少 乘 加 减 かける わる
    たす ひく は
"""
_UNITS = """
    meter km kilometers kilometres meters metres feet foot inch inches cm kg pounds
    lbs grams gram gramos kilos euros euro dollars dollar celsius fahrenheit seconds
    minutes hours fuss pieds litres liters miles mile минут часах часа трех двух
    decimals decimal digits number numbers cent ciento places
"""

# "My list" is something to remember, and "the list" is not.
_MY = """
    my mine our ours mein meine meinen meinem meiner meines unser unsere unseren
    unserem mon ma mes notre nos mi mis nuestra nuestro nuestros nuestras mio mia
    miei mie nostro nostra nostri meu minha meus minhas nosso nossa benim bizim мой
    моя мое мои моего моей моих моим моем мою наш наша наше наши нашего нашей
"""

# With one of these a question is about somebody: "what did I say last night?"
_SOMEBODY = """
    i we us he she him his her they them their ich wir er ihm ihn ihr je nous elle
    elles ils yo nosotros nosotras ella ellas ellos io noi lei lui loro eu ela elas
    eles ben biz onlar я мы он она они انا نحن هو هي εγω εμεισ αυτη αυτοσ मै हम वह 我
    他 她 我们 私
"""

# Stop words of one language that name something in another: "which car?", "how is Kim?"
_NAMES = """
    car die man war son sin bin hat hay mag size par dove solo plus sue era pour mal
    come ton fur wart den hem las dal ate kim ben mia ali ela ama dos van sent via fra
"""

_READ = 2_000  # characters; what comes later changes nothing
_ARABIC = str.maketrans("\u0629\u0649", "\u0647\u064a")
_CALCULATES = re.compile(r"\d\s*[-+*/^=×÷%!]|[%=]\s*\d|\bsqrt\b|√")
_CODE = re.compile(
    r"[{}<>\[\]|\\_$&]|[=!+*:-]=|[=-]>|::|//|[a-z]\(|\)\s*[:{]|[)\w\"'];\s*$"
    r"|^\s*[#@/-]|\w=\S|\b[a-z_]+\.[a-z]\w*\(|\b\w+\.(?:py|js|ts|json|yml|cpp|java)\b"
    r"|(?<!\S)--?[a-z]|^\s*\w+:$|\b(?:def|const|import|SELECT|ALTER|INSERT|FROM|WHERE"
    r"|Traceback|\w*[a-z]Error|\w*Exception|ERR|error:|core dumped)",
    re.MULTILINE | re.ASCII,
)
_ASKS = re.compile("[?\uff1f\u061f]")
_MOST = 4
_CODE_SHARE = 0.2  # signs of code per word


class Asking(NamedTuple):
    """What a message asks, by its words alone.

    Attributes:
        nothing: Whether it asks nothing of a memory.
        telling: The number of words, at most 4, that may name something to remember.
            A person whom a question is about counts as two.
        keywords: Whether it has only such words, as what is typed into a search box.
    """

    nothing: bool
    telling: int
    keywords: bool


def asking(text: str) -> Asking:
    """Return what a message asks of a memory."""
    read = text[:_READ]
    talk, operations, units, mine, somebody, stopped = _word_lists()
    said = list(map(_bare, words(read)))
    left = [word for word in said if word not in stopped and word not in talk]
    telling = [word for word in left if not word.isdigit()]
    found, keywords = len(telling), len(telling) == len(said)
    if len(_CODE.findall(read)) >= _CODE_SHARE * max(len(read.split()), 1):
        return Asking(nothing=True, telling=min(found, _MOST), keywords=False)
    asks = _ASKS.search(read) is not None
    if not mine.isdisjoint(said) or (asks and not somebody.isdisjoint(said)):
        return Asking(nothing=False, telling=min(found + 2, _MOST), keywords=False)
    found = min(found, _MOST)
    if len(telling) == len(left):
        return Asking(nothing=not left, telling=found, keywords=keywords)
    is_sum = _CALCULATES.search(read) or not operations.isdisjoint(said)
    others = [w for w in telling if len(w) > 1 and w not in operations | units]
    nothing = bool(is_sum) and not others
    return Asking(nothing=nothing, telling=found, keywords=False)


def _bare(word: str) -> str:
    """Return a word without accents, and Arabic letters without their variants."""
    return word if word.isascii() else without_marks(word).translate(_ARABIC)


@lru_cache(1)
def _word_lists() -> tuple[frozenset[str], ...]:
    lists = [
        frozenset(map(_bare, words(listed)))
        for listed in (_SAID, _OPERATIONS, _UNITS, _MY, _SOMEBODY)
    ]
    stopped = {word for each in ALL_STOP_WORDS.values() for word in each}
    stopped = {_bare(normalise(word)) for word in stopped}
    return (*lists, frozenset(stopped.difference(_NAMES.split())))
