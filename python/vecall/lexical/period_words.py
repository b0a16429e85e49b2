"""The words by which each language names a period, for `vecall.lexical.periods`.

All are normalised. In a vocabulary "/" separates meanings, a space separates words of
one meaning, "_" stands for a space, and "+" marks a month or season that stands without
a preposition. Other values are regular expressions; in `ago` and `recent`, {n} is a
number and {u} a unit; "||" separates two patterns.

Meanings, in their order: `units` are minute, hour, day, week, weekend, month and year;
`numbers` 1 to 12; `adjectives` last, this and next; `weekdays` Monday to Sunday;
`seasons` winter to autumn; `parts` those of `PARTS`. `specs` has the meaning of each
word of `words`: a unit or a part of the day, and how many lie between it and now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Table = dict[str, str]

PARTS = ("morning", "afternoon", "evening", "night")

ENGLISH: Table = {
    "name": "english",
    "specs": "day -2/day -1/day 0/day 1/day 2/evening 0/night -1",
    "words": "the_day_before_yesterday day_before_yesterday/yesterday/today/tomorrow/"
    "day_after_tomorrow/tonight/last_night",
    "numbers": "a an one/two a_couple_of/three/four/five/six/seven/eight/nine/ten/"
    "eleven/twelve",
    "few": "a_few few several some",
    "units": "minute minutes/hour hours/day days/week weeks/weekend weekends/"
    "month months/year years",
    "adjectives": "last previous past/this current/next coming following",
    "weekdays": "monday/tuesday/wednesday/thursday/friday/saturday/sunday",
    "months": "january jan/february feb/march mar/april apr/may/june jun/july jul/"
    "august aug/september sept sep/october oct/november nov/december dec",
    "seasons": "winter/spring springtime/summer summertime/autumn fall",
    "parts": "morning/afternoon/evening/night",
    "ago": "{n} {u} ago",
    "recent": "(?:last|past|previous) {n} {u}",
    "fill": "in the|at",
    "in": "in|during|throughout|of|(?:in )?(?:early|late|mid)",
    "year": "in|during|throughout|of|year",
    "since": "since|starting",
    "before": "before|prior to",
    "until": "until|till|up to|by",
    "after_": "after",
    "and": "and|or|between|from|through|to",
}
GERMAN: Table = {
    "name": "german",
    "specs": "day -2/day -1/day 0/day 1/day 2",
    "words": "vorgestern/gestern/heute/morgen/ubermorgen",
    "numbers": "ein eine einem einer einen/zwei/drei/vier/funf/sechs/sieben/acht/neun/"
    "zehn/elf/zwolf",
    "few": "ein_paar einige einigen wenigen mehreren",
    "units": "minute minuten/stunde stunden/tag tage tagen tages/woche wochen/"
    "wochenende wochenenden/monat monate monaten monats/jahr jahre jahren jahres",
    "adjectives": "letzte letzten letzter letztes letztem vergangene vergangenen "
    "vergangener vergangenes vorige vorigen voriger voriges/diese dieser dieses diesen "
    "diesem/nachste nachsten nachster nachstes kommende kommenden kommender kommendes",
    "weekdays": "montag/dienstag/mittwoch/donnerstag/freitag/samstag sonnabend/sonntag",
    "months": "januar janner/februar/marz/april/mai/juni/juli/august/september/oktober/"
    "november/dezember",
    "seasons": "winter/fruhling fruhjahr/sommer/herbst",
    "parts": "morgen fruh vormittag/nachmittag/abend/nacht",
    "ago": "vor {n} {u}",
    "recent": "(?:letzten?|vergangenen?) {n} {u}||seit {n} {u}",
    "fill": "am|in der",
    "in": "im|in|wahrend|anfang|mitte|ende",
    "year": "im jahr|im jahre|in|jahr|anno|im",
    "since": "seit|ab",
    "before": "vor",
    "until": "bis|bis zum|bis zu",
    "after_": "nach",
    "and": "und|oder|zwischen|von|vom",
}
FRENCH: Table = {
    "name": "french",
    "specs": "day -2/day -1/day 0/day 1/day 2",
    "words": "avant-hier avant_hier/hier/aujourd'hui aujourdhui/demain/apres-demain",
    "numbers": "un une/deux/trois/quatre/cinq/six/sept/huit/neuf/dix/onze/douze",
    "few": "quelques plusieurs",
    "units": "minute minutes/heure heures/jour jours/semaine semaines/"
    "week-end week-ends weekend/mois/an ans annee annees",
    "adjectives": "dernier derniere derniers dernieres passe passee precedent "
    "precedente/ce cet cette/prochain prochaine prochains",
    "after": "yes",
    "weekdays": "lundi/mardi/mercredi/jeudi/vendredi/samedi/dimanche",
    "months": "janvier/fevrier/mars/avril/mai/juin/juillet/aout/septembre/octobre/"
    "novembre/decembre",
    "seasons": "hiver/printemps/ete/automne",
    "parts": "matin matinee/apres-midi/soir soiree/nuit",
    "ago": "il y a {n} {u}",
    "recent": "{n} (?:derniers|dernieres) {u}||depuis {n} {u}",
    "fill": "au|dans la|dans l'",
    "in": "en|pendant l'|durant l'|au mois de|au|de l'|l'|pendant le|courant",
    "year": "en|l'annee|annee|de",
    "since": "depuis|a partir du|a partir de|des",
    "before": "avant",
    "until": "jusqu'en|jusqu'au|jusqu'a|jusque",
    "after_": "apres",
    "and": "et|ou|entre|de|du|au|a",
}
SPANISH: Table = {
    "name": "spanish",
    "specs": "day -2/day -1/day 0/day 1/day 2/night -1",
    "words": "anteayer antier antes_de_ayer/ayer/hoy/manana/pasado_manana/anoche",
    "numbers": "un una uno/dos/tres/cuatro/cinco/seis/siete/ocho/nueve/diez/once/doce",
    "few": "unos unas algunos algunas pocos pocas",
    "units": "minuto minutos/hora horas/dia dias/semana semanas/fin_de_semana finde/"
    "mes meses/ano anos",
    "adjectives": "pasado pasada ultimo ultima anterior/este esta/proximo proxima "
    "siguiente que_viene",
    "after": "yes",
    "weekdays": "lunes/martes/miercoles/jueves/viernes/sabado/domingo",
    "months": "enero/febrero/marzo/abril/mayo/junio/julio/agosto/septiembre setiembre/"
    "octubre/noviembre/diciembre",
    "seasons": "invierno/primavera/verano/otono",
    "parts": "manana/tarde/noche anochecer/madrugada",
    "ago": "hace {n} {u}||{n} {u} atras",
    "recent": "(?:ultimos|ultimas) {n} {u}||{n} (?:ultimos|ultimas) {u}",
    "fill": "por la|a la|en la",
    "in": "en|durante|a finales de|a principios de|de",
    "year": "en|del ano|ano|de|del|durante",
    "since": "desde|a partir de|a partir del",
    "before": "antes de|antes del",
    "until": "hasta",
    "after_": "despues de|despues del|tras",
    "and": "y|o|entre|de|del|al|a",
}
ITALIAN: Table = {
    "name": "italian",
    "specs": "day -2/day -1/day 0/day 1/day 2/morning 0/evening 0/night 0",
    "words": "l'altro_ieri altro_ieri avantieri altroieri/ieri/oggi/domani/dopodomani/"
    "stamattina stamani/stasera/stanotte",
    "numbers": "un una uno/due/tre/quattro/cinque/sei/sette/otto/nove/dieci/undici/"
    "dodici",
    "few": "qualche alcuni alcune pochi poche",
    "units": "minuto minuti/ora ore/giorno giorni/settimana settimane/fine_settimana "
    "weekend/mese mesi/anno anni",
    "adjectives": "scorso scorsa scorsi scorse passato passata ultimo ultima/questo "
    "questa quest'/prossimo prossima",
    "after": "yes",
    "weekdays": "lunedi/martedi/mercoledi/giovedi/venerdi/sabato/domenica",
    "months": "gennaio/febbraio/marzo/aprile/maggio/giugno/luglio/agosto/settembre/"
    "ottobre/novembre/dicembre",
    "seasons": "inverno/primavera/estate/autunno",
    "parts": "mattina mattino/pomeriggio/sera/notte",
    "ago": "{n} {u} fa",
    "recent": "(?:ultimi|ultime|scorsi|scorse) {n} {u}||da {n} {u}",
    "fill": "di|nella|nel",
    "in": "in|a|nel|nell'|d'|durante l'|durante la|ad|di|l'",
    "year": "nel|del|anno|nell'anno|dell'anno",
    "since": "da|dal|dall'|a partire da|a partire dal",
    "before": "prima di|prima del|prima dell'",
    "until": "fino a|fino al|fino ad",
    "after_": "dopo",
    "and": "e|o|tra|fra|da|dal|al|a",
}
PORTUGUESE: Table = {
    "name": "portuguese",
    "specs": "day -2/day -1/day 0/day 1/day 2",
    "words": "anteontem/ontem/hoje/amanha/depois_de_amanha",
    "numbers": "um uma/dois duas/tres/quatro/cinco/seis/sete/oito/nove/dez/onze/doze",
    "few": "alguns algumas uns umas poucos poucas",
    "units": "minuto minutos/hora horas/dia dias/semana semanas/fim_de_semana/"
    "mes meses/ano anos",
    "adjectives": "passado passada ultimo ultima anterior/este esta neste nesta/"
    "proximo proxima que_vem seguinte",
    "after": "yes",
    "weekdays": "segunda-feira na_segunda-feira na_segunda/terca-feira na_terca-feira "
    "na_terca/quarta-feira na_quarta-feira na_quarta/quinta-feira na_quinta-feira "
    "na_quinta/sexta-feira na_sexta-feira na_sexta/sabado/domingo",
    "months": "janeiro/fevereiro/marco/abril/maio/junho/julho/agosto/setembro/outubro/"
    "novembro/dezembro",
    "seasons": "inverno/primavera/verao/outono",
    "parts": "manha/tarde/noite/madrugada",
    "ago": "(?:ha|faz) {n} {u}||{n} {u} atras",
    "recent": "(?:ultimos|ultimas) {n} {u}",
    "fill": "de|a|pela|da",
    "in": "em|no|na|durante o|durante a|de",
    "year": "em|de|no ano|no ano de|ano|durante",
    "since": "desde|a partir de",
    "before": "antes de|antes do|antes da",
    "until": "ate",
    "after_": "depois de|depois do|depois da|apos",
    "and": "e|ou|entre|de|a",
}
DUTCH: Table = {
    "name": "dutch",
    "specs": "day -2/day -1/day 0/day 1/day 2/evening -1/afternoon -1/morning -1/"
    "morning 0/afternoon 0/evening 0/night 0",
    "words": "eergisteren/gisteren/vandaag/morgen/overmorgen/gisteravond "
    "gisterenavond/gistermiddag/gisterochtend gistermorgen/vanmorgen vanochtend/"
    "vanmiddag/vanavond/vannacht",
    "numbers": "een/twee/drie/vier/vijf/zes/zeven/acht/negen/tien/elf/twaalf",
    "few": "een_paar enkele enige",
    "units": "minuut minuten/uur uren/dag dagen/week weken/weekend weekeinde/"
    "maand maanden/jaar jaren",
    "adjectives": "vorige vorig afgelopen/deze dit/volgende volgend komende komend",
    "weekdays": "maandag/dinsdag/woensdag/donderdag/vrijdag/zaterdag/zondag",
    "months": "januari/februari/maart/april/mei/juni/juli/augustus/september/oktober/"
    "november/december",
    "seasons": "winter/lente voorjaar/zomer/herfst najaar",
    "parts": "ochtend morgen/middag/avond/nacht",
    "ago": "{n} {u} geleden",
    "recent": "(?:afgelopen|laatste) {n} {u}||sinds {n} {u}",
    "fill": "in de",
    "in": "in|tijdens|begin|eind|half|van",
    "year": "in|in het jaar|jaar|van",
    "since": "sinds|vanaf",
    "before": "voor",
    "until": "tot|tot en met",
    "after_": "na",
    "and": "en|of|tussen|van|tot",
}
SWEDISH: Table = {
    "name": "swedish",
    "specs": "day -2/day -1/day 0/day 1/day 2/year -1/year 0/morning 0/evening 0/"
    "night -1/weekday 0/weekday 1/weekday 2/weekday 3/weekday 4/weekday 5/weekday 6/"
    "season 0/season 1/season 2/season 3",
    "words": "i_forrgar forrgar/i_gar igar/i_dag idag/i_morgon imorgon/i_overmorgon/"
    "i_fjol/i_ar/i_morse/i_kvall ikvall/i_natt inatt/i_mandags/i_tisdags/i_onsdags/"
    "i_torsdags/i_fredags/i_lordags/i_sondags/i_vintras/i_varas/i_somras/i_hostas",
    "numbers": "en ett/tva/tre/fyra/fem/sex/sju/atta/nio/tio/elva/tolv",
    "few": "nagra ett_par",
    "units": "minut minuter/timme timmar/dag dagar dagen dagarna/vecka veckan veckor "
    "veckorna/helg helgen helger/manad manaden manader manaderna/ar aret aren",
    "adjectives": "forra forrforra senaste/denna detta/nasta",
    "weekdays": "mandag mandagen/tisdag tisdagen/onsdag onsdagen/torsdag torsdagen/"
    "fredag fredagen/lordag lordagen/sondag sondagen",
    "months": "januari/februari/mars/april/maj/juni/juli/augusti/september/oktober/"
    "november/december",
    "seasons": "vinter vintern/var varen/sommar sommaren/host hosten",
    "parts": "morse morgon morgonen/eftermiddag eftermiddagen/kvall kvallen/"
    "natt natten",
    "ago": "for {n} {u} sedan",
    "recent": "senaste {n} {u}",
    "fill": "pa|i",
    "in": "i|under|pa",
    "year": "ar|under|i",
    "since": "sedan|fran och med|alltsedan",
    "before": "fore|innan",
    "until": "till|fram till|tills",
    "after_": "efter",
    "and": "och|eller|mellan|fran",
}
RUSSIAN: Table = {
    "name": "russian",
    "specs": "day -2/day -1/day 0/day 1/day 2",
    "words": "позавчера/вчера/сегодня/завтра/послезавтра",
    "numbers": "один одну одна/два две/три/четыре/пять/шесть/семь/восемь/девять/"
    "десять/одиннадцать/двенадцать",
    "few": "несколько",
    "units": "минуту минуты минут/час часа часов/день дня дней дне дню/неделя недели "
    "неделю неделе недель неделей/выходные выходных/месяц месяца месяцев месяце/год "
    "года году годом лет",
    "adjectives": "прошлой прошлую прошлом прошлого прошлый прошлым прошлое прошлые "
    "прошлых последнюю последний последние/этой эту этом этого этот этим это эти этих/"
    "следующей следующую следующем следующего следующий следующие будущем",
    "weekdays": "понедельник понедельника/вторник вторника/среду среды/четверг "
    "четверга/пятница пятницу пятницы/суббота субботу субботы/воскресенье воскресенья",
    "months": "января январь январе январем/февраля февраль феврале февралем/"
    "марта март марте мартом/апреля апрель апреле апрелем/"
    "мая май мае маем/июня июнь июне июнем/"
    "июля июль июле июлем/августа август августе августом/"
    "сентября сентябрь сентябре сентябрем/октября октябрь октябре октябрем/"
    "ноября ноябрь ноябре ноябрем/декабря декабрь декабре декабрем",
    "seasons": "зимой+ зима зиму зимы/весной+ весна весну весны/летом+ лето лета/"
    "осенью+ осень осени",
    "parts": "утром утра утро/днем/вечером вечера вечер/ночью ночь ночи",
    "ago": "(?:{n} )?{u} назад",
    "recent": "последн(?:ие|их|юю|ий) {n} {u}",
    "fill": "в",
    "in": "в|во|за|в начале|в конце",
    "year": "в|за|с",
    "since": "с|со|начиная с",
    "before": "до|перед",
    "until": "по",
    "after_": "после",
    "and": "и|или|между|с|до|от",
}
TURKISH: Table = {
    "name": "turkish",
    "specs": "day -2/day -1/day 0/day 1/day 2",
    "words": "evvelsi_gun evvelki_gun onceki_gun/dun/bugun/yarin/obur_gun",
    "numbers": "bir/iki/uc/dort/bes/alti/yedi/sekiz/dokuz/on/on_bir/on_iki",
    "few": "birkac",
    "units": "dakika/saat/gun gunu gunde/hafta haftasi haftadan haftada/hafta_sonu "
    "haftasonu/ay ayi ayda aydan/yil yili yilda yildan sene",
    "adjectives": "gecen son/bu/gelecek onumuzdeki",
    "weekdays": "pazartesi/sali_gunu gecen_sali/carsamba/persembe/cuma/cumartesi/"
    "pazar_gunu gecen_pazar",
    "months": "ocak ocakta+ ocaktan+/subat subatta+ subattan+/mart martta+ marttan+/"
    "nisan nisanda+ nisandan+/mayis mayista+ mayistan+/haziran haziranda+ hazirandan+/"
    "temmuz temmuzda+ temmuzdan+/agustos agustosta+ agustostan+/"
    "eylul eylulde+ eylulden+/ekim ekimde+ ekimden+/kasim kasimda+ kasimdan+/"
    "aralik aralikta+ araliktan+",
    "seasons": "kis kisin+/ilkbahar ilkbaharda+ bahar/yaz yazin+/sonbahar sonbaharda+",
    "parts": "sabah sabahi/ogleden_sonra/aksam aksami/gece gecesi",
    "ago": "{n} {u} once",
    "recent": "son {n} {u}",
    "in": "gecen",
    "suffix": "'[dt][ae]n?",
    "year": "yil|yili",
    "since_post": "(?:'?[dt][ae]n)? beri",
    "before_post": "(?:'?[dt][ae]n)? once",
    "until_post": "(?:'?y?[ae])? kadar",
    "after__post": "(?:'?[dt][ae]n)? sonra",
    "and": "ve|ile|veya",
}
CHINESE: Table = {
    "name": "chinese",
    "specs": "day -2/day -1/day 0/day 1/day 2/year -1/year 0/year 1/year -2/evening -1/"
    "evening 0/morning 0",
    "words": "前天/昨天 昨日/今天 今日/明天 明日/后天 後天/去年/今年/明年/前年/"
    "昨晚 昨夜/今晚/今早 今晨",
    "numbers": "一/两 兩 二/三/四/五/六/七/八/九/十",
    "few": "几 幾",
    "units": "分钟 分鐘/小时 小時 个小时/天 日/周 週 星期 个星期 個星期 "
    "礼拜 个礼拜 個禮拜/周末 週末/月 个月 個月/年",
    "adjectives": "上 上个 上個/这 这个 這 這個 本/下 下个 下個",
    "weekday_adjectives": "上 上个 上個/这 这个 這 這個 本/下 下个 下個",
    "weekdays": "周一 週一 星期一 礼拜一/周二 週二 星期二 礼拜二/"
    "周三 週三 星期三 礼拜三/周四 週四 星期四 礼拜四/周五 週五 星期五 礼拜五/"
    "周六 週六 星期六 礼拜六/"
    "周日 週日 星期日 星期天 礼拜天 周天",
    "months": "",
    "seasons": "冬天 冬季/春天 春季/夏天 夏季/秋天 秋季",
    "parts": "早上 上午 早晨/下午/晚上 傍晚/夜里 半夜",
    "ago": "{n} {u}(?:以|之)?前",
    "recent": "(?:最近|过去|過去|近){n} {u}",
    "in": "在",
    "since": "自从|自|从|從",
    "since_post": "以来|以來|起|开始|開始",
    "before_post": "之前|以前",
    "until_post": "为止|為止",
    "after__post": "之后|以后|之後|以後",
    "and": "和|到|至|与|與|或",
}
JAPANESE: Table = {
    "name": "japanese",
    "specs": "day -2/day -1/day 0/day 1/day 2/week -1/week 0/week 1/week -2/month -1/"
    "month 0/month 1/year -1/year 0/year 1/year -2/evening -1/evening 0/morning 0/"
    "weekend -1/weekend 0",
    "words": "一昨日 おととい/昨日 きのう/今日 きょう/明日 あした/明後日 あさって/"
    "先週/今週/来週/先々週/先月/今月/来月/去年 昨年/今年/来年/一昨年 おととし/"
    "昨夜 昨晩 ゆうべ/今夜 今晩/今朝/先週末 先週の週末/今週末",
    "numbers": "一/二/三/四/五/六/七/八/九/十",
    "few": "数",
    "units": "分/時間/日/週間/週末/か月 ヶ月 カ月 ヵ月 ケ月 箇月/年",
    "adjectives": "先の 前の/この/次の",
    "weekday_adjectives": "先週の/今週の/来週の",
    "weekdays": "月曜日 月曜/火曜日 火曜/水曜日 水曜/木曜日 木曜/金曜日 金曜/"
    "土曜日 土曜/日曜日 日曜",
    "months": "",
    "seasons": "冬/春/夏/秋",
    "parts": "朝 午前/午後/夕方 夜 晩/深夜",
    "ago": "{n} {u}前",
    "recent": "(?:ここ|過去|直近|この){n} {u}",
    "in": "去年の|昨年の|今年の",
    "fill": "の",
    "since_post": "から|以来|以降",
    "before_post": "以前|より前|の前|前",
    "until_post": "まで",
    "after__post": "以後|の後|より後",
    "and": "から|と|、",
}
KOREAN: Table = {
    "name": "korean",
    "specs": "day -2/day -1/day 0/day 1/day 2/year -1/year 0/year 1/evening -1/"
    "evening 0/morning 0",
    "words": "그저께 그제 엊그제/어제/오늘/내일/모레/작년 지난해/올해/내년/어젯밤/"
    "오늘밤 오늘_밤/오늘_아침",
    "numbers": "한 일/두 이/세 삼/네 사/다섯/여섯/일곱/여덟/아홉/열",
    "few": "몇",
    "units": "분/시간/일/주 주일/주말/달 개월/년 해",
    "adjectives": "지난/이번 금/다음",
    "weekday_adjectives": "지난주 지난_주/이번_주 이번주/다음_주 다음주",
    "weekdays": "월요일/화요일/수요일/목요일/금요일/토요일/일요일",
    "months": "",
    "seasons": "겨울/봄/여름/가을",
    "parts": "아침 오전/오후/저녁/밤",
    "ago": "{n} {u} 전",
    "recent": "(?:최근|지난) {n} {u}",
    "in": "작년|올해",
    "since_post": "부터|이후|이래",
    "before_post": "이전|전",
    "until_post": "까지",
    "after__post": "후",
    "and": "와|과|부터|에서",
}

LATIN = (
    ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH, SWEDISH, RUSSIAN,
    TURKISH,
)  # fmt: skip
"""Languages whose words are separated by spaces."""

EAST = (CHINESE, JAPANESE, KOREAN)
"""Languages with months by number, and words without spaces or with particles."""

TABLES = (*LATIN, *EAST)

EAST_YEARS = {"去年": -1, "昨年": -1, "작년": -1, "지난해": -1, "今年": 0, "올해": 0}
"""Words for years that stand before a month or season, and how far the year is."""


def alternatives(text: str) -> list[list[str]]:
    """Return the words of each meaning."""
    return [each.split() for each in text.split("/")]


def meanings(text: str) -> dict[str, int]:
    """Return the number of its place for each word."""
    return {
        word.rstrip("+").replace("_", " "): place
        for place, words in enumerate(alternatives(text))
        for word in words
    }


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words, the longest one first."""
    ordered = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, ordered)) or r"(?!)"


MONTHS = (
    "january february march april may june july august september october november "
    "december"
).split()

_ALSO_NAMES = ("jan", "mar")

MONTH_NAMES: dict[str, dict[str, str]] = {
    table["name"]: {
        name: MONTHS[number]
        for name, number in meanings(table["months"]).items()
        if name not in _ALSO_NAMES
    }
    for table in LATIN
}
"""For each language: a month's name or abbreviation, and the English name under which
memories are indexed. A name counts in its own language only: in others Marco and Avril
are people."""

MONTH_NUMBERS: dict[str, int] = {
    name: number
    for table in LATIN
    for name, number in meanings(table["months"]).items()
}
_DIGITS = "一二三四五六七八九"


def eastern_number(text: str) -> int:
    """Read a number such as 7, 七, 十, 十二 or 三十一; return 0 for other text."""
    if text.isdecimal():
        return int(text)
    text = text.replace("两", "二").replace("兩", "二")
    tens, ten, ones = text.rpartition("十")
    if len(tens) > 1 or len(ones) > 1:
        return 0
    count = _DIGITS.find(tens) + 1 if tens else len(ten)
    return 10 * count + (_DIGITS.find(ones) + 1 if ones else 0)
