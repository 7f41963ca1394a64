"""Lexicon of names of people: given names and surnames of Faker's locales, and words that occur
around and inside names.

The lists are mainly English, with the titles, greetings and particles of neighbouring languages;
the same lists are used for texts in any language. A word has a set of flags;
`NameLexicon.lookup_flags` looks up whole columns of words by their hashes. The words with their
flags are read from `name_lexicon.npy`, which `make generate` writes (see `list_flagged_words`): the
lists of Faker cost a third of a second in each process.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, I64, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts, to_large_string
from sanitize.kernels import text_words
from sanitize.kinds.person import faker_names
from sanitize.text.common_words import COMMON_WORDS
from sanitize.text.tokenizer import tokenize_unicode

(
    GIVEN_NAME,
    SURNAME,
    COMMON_WORD,
    PLACE,
    ORGANIZATION,
    STOP_WORD,
    TITLE,
    GREETING,
    CLOSING,
    PARTICLE,
    CHINESE_SURNAME,
    NAME_CUE,
    VERB_AFTER_NAME,
    PLACE_PREPOSITION,
    FORM_FIELD,
    PLACE_PREFIX,
    ROLE,
    AUTHORSHIP_VERB,
    REQUEST,
    ASSENT,
    LIST_WORD,
    RELATION,
    PERSONAL_VERB,
    EVERYDAY_GIVEN_NAME,
) = (1 << bit for bit in range(24))

# titles precede a surname; roles and relations precede any name
_TITLE_WORDS = (
    "mr mrs ms miss mx dr prof professor sir madam dame lord rev reverend fr father sister brother"
    " uncle aunt auntie grandpa grandma herr frau monsieur madame mme mlle señor señora sr sra"
    " signor signora dott ing judge justice senator sen rep congressman congresswoman gov governor"
    " president capt captain lt lieutenant sgt sergeant col colonel gen general maj major cpl"
    " officer detective inspector coach teacher nurse doctor manager director chairman secretary"
    " principal attorney mister missus master mstr madamoiselle senhor senhora heer mevrouw dhr"
    " mevr "
)
_GREETINGS = (
    "dear hi hello hey hiya greetings morning afternoon evening hallo liebe lieber bonjour cher"
    " chère hola querido querida estimado ciao estimada beste geachte hoi olá szanowny szanowna"
    " drogi droga cześć "
)
_CLOSINGS = (
    "regards thanks sincerely cheers best love yours truly respectfully cordially thx thankyou"
    " gratefully faithfully grüße gruß mfg cordialement saludos atentamente saluti "
)
_PARTICLES = (
    "van von der den de del della di da dos du la le al el bin ibn ben ter ten zu af av y e"
)
# words before a surname that are also used without one: `Engineer Liu`
_ROLES = (
    "engineer editor boss coach agent consultant supervisor lecturer chef pastor imam rabbi nun"
    " monk mayor minister chancellor ambassador leader representative specialist commissioner"
    " monitor salesperson salesman secretary colleague prophet pope bishop cardinal saint king"
    " queen prince princess emperor sultan sheikh sheik comrade auntie president prime vice deputy"
    " chief lawyer barrister solicitor constable sheriff warden ranger pilot commander admiral "
)
# `written by Zyqwert`
_AUTHORSHIP_VERBS = (
    "written signed prepared reviewed approved submitted directed conducted verified authored"
    " composed edited translated painted drawn photographed recorded reported tested acked"
    " suggested developed supervised interviewed narrated illustrated countersigned witnessed sung"
    " arranged overseen compiled coached taught "
)
# words before a name: `my son Zyqwert`
_RELATIONS = (
    "son daughter kid child baby wife husband spouse brother sister sibling friend boyfriend"
    " girlfriend fiancé fiancée mom mum mommy mother dad daddy father uncle aunt cousin nephew"
    " niece grandson granddaughter grandmother grandfather grandma grandpa neighbor neighbour"
    " roommate flatmate housemate classmate colleague coworker boss mentor founder cofounder"
    " stepson stepdaughter stepfather stepmother twin nanny babysitter godson goddaughter"
    " goddaughter buddy pal widow widower bride groom "
)
# frequent given names among the common words
_EVERYDAY_GIVEN_NAMES = (
    "al art ben bill bob bud carol chad chuck dale dan dawn don drew ed frank glen grant guy herb "
    "holly jack jan jay jean jim jo kit lance mark matt miles neil pat pete ray rob rod "
    "roy ruby rusty sandy sonny sue ted tom tony wade will woody "
)
# companies and places called after people, each by its first two words
EPONYMS = (
    "dow jones",
    "morgan stanley",
    "merrill lynch",
    "wells fargo",
    "goldman sachs",
    "lehman brothers",
    "salomon smith",
    "arthur andersen",
    "henry hub",
    "charles schwab",
    "jp morgan",
    "harley davidson",
    "hewlett packard",
    "eli lilly",
    "calvin klein",
    "ralph lauren",
    "levi strauss",
    "mary kay",
    "louis vuitton",
    "christian dior",
    "martha stewart",
    "warner brothers",
    "johnson controls",
    "abbott laboratories",
    "campbell scientific",
    "mount sinai",
    "johns hopkins",
    "wal mart",
    "tai chi",
    "monte carlo",
    "mona lisa",
    "santa claus",
    "james bond",
    "harry potter",
    "uncle sam",
    "tom tom",
    "al qaeda",
)
# verbs that companies and things rarely do
_PERSONAL_VERBS = (
    "lives lived thinks thought feels felt graduated married died smiled smiles laughed laughs"
    " cried cries sighed nodded nods whispered shouted yelled hugged kissed slept wept lay sat"
    " stood walked grinned shrugged frowned muttered exclaimed "
)
# words after a name that is spoken to: `Zyqwert, please send it`
_REQUESTS = "please pls can could would will you your do did are thanks thank remember "
# words before it: `Thanks, Zyqwert`
_ASSENTS = (
    "thanks thank you yes no ok okay sure hello hi hey morning afternoon evening night sorry well"
    " welcome right course congratulations "
)
# words of the display names of mailing lists, teams and programs
_LIST_WORDS = (
    "list lists mailing users user developers developer devel dev discuss discussion announce"
    " announcements digest subscribers subscriber subscription admin administrator administration"
    " webmaster postmaster daemon mailer bot robot notifier notification notifications alert alerts"
    " support helpdesk desk team teams staff crew members moderator moderators owner owners request"
    " help info sales billing marketing newsletter newsletters news updates update reply noreply"
    " autoresponder system daily weekly api linux kernel containers project bugs bug tracker"
    " security maintainers maintainer patches patchwork archive archives forum forums community"
    " editors specialist tips investor services portal online shop store offers deals customer"
    " customers accounts subsystem driver drivers "
)
# words before a name of a place: `San Andres`, `Port Anna`, `Rue Victor`
_PLACE_PREFIXES = (
    "san santa santo sao são saint st ste port porto puerto lake mount mt fort ft cape villa ville"
    " via rua rue calle avenida avenue plaza piazza strada los las east west north south new upper"
    " lower great greater little monte mont isla ul ulica quinta hotel embalse rio río punta"
    " villafranca "
)
# words before a name: `my name is`, `signed by`, `attn`
_NAME_CUES = (
    "am is im named called name contact attn attention by signed cc ask with tell told met and"
)
_VERBS_AFTER_NAME = (
    "said says wrote writes asked asks told tells replied replies answered thinks thought wants"
    " wanted works worked lives lived went goes came comes has had is was will would can could"
    " should did does and "
)
# words before a name in a form: `Patient: Ann Roe`
_FORM_FIELDS = (
    "name surname firstname lastname client patient student reporter contact applicant employee"
    " customer provider physician author owner sender recipient attendee participant guest witness"
    " caller tenant beneficiary candidate resident driver insured claimant plaintiff defendant"
    " spouse contractor supervisor caretaker trustee instructor educator artist prepared reviewed"
    " approved submitted assigned "
)
_PLACE_PREPOSITIONS = (
    "in at from to near of via through outside around across into visit visiting visited downtown"
    " northern southern eastern western"
)
_STOP_WORDS = (
    "i you he she it we they me him her us them my your his its our their this that these those the"
    " a an and or but if so not no "
    "yes ok okay please note here there what when where why who whom which how all any some each"
    " every none both either neither as "
    "at by for from in into of off on onto out over to up with without about after again against"
    " before between during since than "
    "then through under until while is are was were be been being do does did have has had can"
    " could shall should must might am "
    "also just only now today tomorrow yesterday monday tuesday wednesday thursday friday saturday"
    " sunday january february march "
    "july september october november december feb mar apr jun jul aug sep sept oct nov dec mon tue"
    " tues wed thu thur thurs fri sat "
    "re fw fwd fyi asap subject date sent received attached original message forwarded cc bcc email"
    " mail phone fax tel mobile cell "
    "address web website url http https www com net org html pdf inc llc ltd pm est pst gmt utc usa"
    " uk eu un us internet apt suite ste "
    "unit bldg dds phd md esq rt vs feat "
    # pronouns that are capitalized, of languages whose names are in the lists
    "sie ihr ihre ihren ihrem ihnen ich wir nous vous ils voi noi vi usted ustedes você vocês wij"
    " jullie "
)
_ORGANIZATION_WORDS = (
    "inc incorporated llc llp ltd limited corp corporation co company companies group holdings"
    " partners associates bank trust fund capital university college school institute institution"
    " academy hospital clinic center centre foundation association society committee council"
    " commission department ministry agency bureau office division union federation league club"
    " team temple mosque museum library theater theatre hotel restaurant cafe bar shop store market"
    " mall airport station stadium arena park garden gardens street avenue road lane drive"
    " boulevard blvd st ave rd highway bridge building tower towers plaza square house court river"
    " lake mountain mount island islands bay beach valley county city town village state province"
    " district region republic kingdom times news journal magazine press daily post herald radio"
    " television tv channel network networks systems system software technologies technology"
    " solutions services service energy power gas oil pipeline electric airlines airways motors"
    " records entertainment pictures films studios games gmbh ag sa plc act agreement award awards"
    " cup prize festival war battle treaty edition version project program plan report conference"
    " meeting party government parliament congress senate army navy force police account industries"
    " sons brothers markets global international newswires newsletter "
)
_CITIES = (
    "paris london berlin madrid rome vienna amsterdam brussels lisbon dublin athens oslo stockholm"
    " copenhagen helsinki warsaw prague budapest moscow kiev istanbul cairo lagos nairobi"
    " johannesburg tokyo beijing shanghai shenzhen guangzhou hangzhou nanjing chengdu wuhan xian"
    " tianjin suzhou chongqing hong kong seoul singapore bangkok jakarta manila hanoi delhi mumbai"
    " bangalore chennai kolkata karachi lahore dhaka sydney melbourne brisbane perth auckland"
    " toronto montreal vancouver ottawa calgary chicago houston dallas austin boston seattle denver"
    " phoenix philadelphia detroit atlanta miami orlando tampa cleveland columbus cincinnati"
    " pittsburgh portland sacramento oakland angeles francisco diego antonio vegas york jersey"
    " orleans washington baltimore charlotte nashville memphis milwaukee minneapolis omaha tulsa"
    " albuquerque manchester birmingham liverpool glasgow edinburgh bristol leeds sheffield oxford"
    " cambridge munich hamburg cologne frankfurt stuttgart zurich geneva basel milan naples turin"
    " venice florence barcelona seville valencia lyon marseille nice bordeaux africa europe asia"
    " america antarctica australia england scotland wales britain bavaria tuscany sicily siberia"
    " caribbean pacific atlantic mediterranean brooklyn manhattan queens bronx harlem hollywood"
    " madison lincoln jackson richmond raleigh savannah santiago lima bogota havana hainan yunnan"
    " hunan hubei henan hebei shanxi shaanxi sichuan guangdong guangxi guizhou jiangsu jiangxi"
    " zhejiang fujian anhui shandong liaoning jilin heilongjiang gansu qinghai ningxia xinjiang"
    " tibet haikou sanya kunming changsha zhengzhou jinan qingdao dalian xiamen fuzhou nanchang"
    " hefei taiyuan harbin changchun shenyang lanzhou guiyang nanning zhuhai dongguan foshan wuxi"
    " ningbo macau taipei taiwan osaka kyoto nagoya busan hyderabad pune colombo kathmandu kabul"
    " tehran baghdad beirut damascus riyadh doha dubai tunis algiers rabat casablanca accra dakar"
    " kampala lusaka harare kingston jordan israel chad georgia virginia carolina dakota montana"
    " chelsea lourdes sofia salem troy trenton augusta helena pierre juneau carson laramie "
)
# English words that are also in the lists of names, and are rarely names; the first line: words of
# frequent phrases
_COMMON_WORDS = (
    "alright understood therefore instead moreover recently sometimes exactly besides furthermore"
    " unfortunately nope fine applied afaict cool wow hmm excellent otherwise thus consequently"
    " meanwhile however additionally honestly basically anyway indeed nice awesome agreed correct"
    " perfect congrats congratulations guys folks everyone everybody somebody anybody team sir bro"
    " sis honey darling dude buddy user assistant dinner lunch breakfast mine life wine done damn"
    " amen ah ahh haha ooh til eve ima tai bento mart name ahead asap behalf convenience"
    " conversation days determined earliest fyi million ab account ace add ade african agate al ala"
    " alas alpha amber american amo among an ane anes ange angel anon anonymous ants april arab are"
    " arenas arent ares argu arly armstrong art arts asian asks ata atlanta au auch august aus"
    " austin australian author autumn ava babe baby back backer bail baker bal ball ban banks bar"
    " barb barber bare baron bass bath bean beard beat bee beer bell bent berlin berry bert best"
    " beta bigot bill bills binder bins bird bishop bite bitten black blank blaze blessing bliss"
    " block blog blossom blot blue bo bogey bona bond bones bonnet boon booth bor bore boss boston"
    " bow brain branch brand brands brandy bravo brazil brick bridge bridges bright brink brook"
    " brooks brown buck buddy bull bunk bury bush butcher cabo cadence cal cam camp campo camps can"
    " canadian canal canals candy cannon cant cap capitol captain car cares carolina carpenter"
    " carrier carry carton casa case cases cash ceil chad chamberlain chambers champagne chance"
    " chancy char charity charm chase chastity cherish cherry chi chin china chinese chip chrome"
    " church clear cliff close cock college colon columbus comfort comment company con conn"
    " constant contractor convey cook cools cop coral cord cornell corona council court courtier"
    " cousin cousins crooks cross cruise crystal cuda da dad daisy dakota dale dallas dam danish"
    " dans dare darling das dash data daughter dawn day de dea dean december deep dela dell delta"
    " den der destin destiny dev developers diamond dickens die din ding dino diver divine doc dock"
    " doctor doll dom domino don doppler dot dove dow dower downs drew dries drop drum du dulce"
    " dusty dutch each earl early earnest east easter ebb echo eck eco ed edit edu el elder els"
    " else emit en engl english era eral erm es essence eta ether european ever exercise fa fac"
    " fair fairy faith fall fan fancy far fares farmer fate father favor favour fawn february fed"
    " fee fema fen fern ferry field fields finan finnish fisher fit fleet flint flood floor flora"
    " florida flowers fo font foot ford forest forget forma forum fount fox franc france frank"
    " freely french fresh friday friend front frost fry fu funk gage gal gall gamble gang garland"
    " gates gauge gay gem general genesis geneva georgia georgian german gill ginger glass glasses"
    " glen godspeed gold golden good goto governor grab grace grand grant gravel graves gray greek"
    " green greet grey grill grit gro gross grunt guard guinness gun gust gut guy hacker hall halls"
    " ham hammer hand handler handy happy harden hardi hare harm harmony harsh hasty haven hay"
    " hazel he hearty heaven heck held hell helm hence herb herba herd herring het hill hills hind"
    " ho holder holland holly hood hook hoop hope horn hou house houston hug hung hunt hunter hurt"
    " husband icy ide ii imam immaculate imo indi india indian indie ine ines infant ing innocent"
    " ion ireland irish ise israel italian ivy ja jacks jail jan january japanese jet jewel jewish"
    " job joke jordan journey joy jr judge july june junior junk justice karma ker kern key kick"
    " kidney killer kind kinder kindle king kink kiss kit knight kool korean lad lady lamb lament"
    " lane lange large lark las law lawyer le lea lean leaner lemon len les less li liberty lie"
    " lien lies limo lin line ling link linka linus lips list little lo loan london long loot lope"
    " lord lore los lot love low loyal lucky lung lute ma mac mace macho mad made magna major male"
    " mall man manly mans march marina marine mark marks marry marshal marshall martial mas mason"
    " masse mast master mat mate mater math mats may media melody mentor merchant mercy merry meta"
    " metro mexican mil mile mill miller mills min minor miracle mist misty moan mom monday money"
    " month moon moons more morrow mother mountain mozilla mule muni must my na nada nail nevada"
    " nickel night nil ninja noble north norwegian november oak octave october odd odds old om op"
    " oral orange orchard org ou ove owe pace page pages paige pan para parent paris park parks"
    " parts pastor pat patience paw payer peace pearl peck peer penny pent pepper per petit petty"
    " pierce pike pin ping pink pla plank pleas pleasant po pol pole polish poor pop pope porter"
    " post power powers precious press presto price priest prince princess prosper prudence pu"
    " purity put putz queen quill rai raid rails rain ram ransom rea read reader real reason red"
    " reed refs rein relu renders repo retirement rice rich richer riddle ridge rim ring river"
    " rivers roar rock rocky rod rode roe roll roman room root roots rose rosy roth royal ruby rush"
    " russian rust rusty sa sad safari saga sage sai said sales salmon san sand sands sandy sane"
    " sang sans santa sas saturday savage savings scarlet sellers sem senator september serenity"
    " server seven sha shade sharp she shepherd shields shine sho short sigs silk silver sim"
    " sincere sine sing singer sip sire sister sith skip sky small smart snow solar sole som son"
    " song soo soon south spain spanish sparks spies spring sr st stack star stark steed steer"
    " sterling stern steward stock stone storm storms stormy story stout strand street strong su"
    " success such sue suits summer summers sun sunday sunder sung sunny sunshine supple sur"
    " swedish swift swiss swords sys ta tab tack tad tailor tank taylor te tea ter the theres theta"
    " thursday ti ties till ting tins tiny tone toner too toole tore tours toy trace tran tre"
    " treasure tree tri trinity true tu tuesday ture turkish und uni unique unknown unnamed urban"
    " us ute vaca vain valid vals valves van velvet venice ver vers versa vial victors victory vid"
    " viking virginia von wage walls ward warmer warrior wash water waters way weblog wednesday"
    " week weeks wen were west whit white wife wild will wills windy wing winter winters wisdom"
    " wise wit wolf wood woods worth ya ye year yoga young zeta "
)
_CHINESE_SURNAMES = (
    "zhao qian sun li zhou wu zheng wang feng chen chu wei jiang shen han yang zhu qin you xu he lv"
    " shi zhang kong cao yan hua jin tao qi xie zou yu bai shui dou yun su pan ge fan peng lang lu"
    " chang ma miao fang ren yuan liu bao tang fei lian cen xue lei ni teng yin lao luo bi hao an"
    " le fu pi bian kang gu meng ping huang he mu xiao yao shao zhan mao di mi bei ming zang ji"
    " cheng dai tan song pang xiong shu qu xiang dong liang du ruan lan min xi jia mei lin diao"
    " zhong gao xia cai tian hu ling huo wan ke guan mo jing qiu gan ying ding deng shan hang bao"
    " zuo cui niu weng xing pei rong lou chai hou mi ning yi duan wen gong che dan "
)
# the finals that each initial of a syllable may have in pinyin
_PINYIN_FINALS = {
    "b": "a ai an ang ao ei en eng i ian iao ie in ing o u",
    "p": "a ai an ang ao ei en eng i ian iao ie in ing o ou u",
    "m": "a ai an ang ao e ei en eng i ian iao ie in ing iu o ou u",
    "f": "a an ang ei en eng o ou u",
    "d": "a ai an ang ao e ei en eng i ia ian iao ie ing iu ong ou u uan ui un uo",
    "t": "a ai an ang ao e eng i ian iao ie ing ong ou u uan ui un uo",
    "n": "a ai an ang ao e ei en eng i ian iang iao ie in ing iu ong ou u uan uo v ve",
    "l": "a ai an ang ao e ei eng i ia ian iang iao ie in ing iu ong ou u uan un uo v ve",
    "g": "a ai an ang ao e ei en eng ong ou u ua uai uan uang ui un uo",
    "k": "a ai an ang ao e en eng ong ou u ua uai uan uang ui un uo",
    "h": "a ai an ang ao e ei en eng ong ou u ua uai uan uang ui un uo",
    "j": "i ia ian iang iao ie in ing iong iu u uan ue un",
    "q": "i ia ian iang iao ie in ing iong iu u uan ue un",
    "x": "i ia ian iang iao ie in ing iong iu u uan ue un",
    "zh": "a ai an ang ao e ei en eng i ong ou u ua uai uan uang ui un uo",
    "ch": "a ai an ang ao e en eng i ong ou u uai uan uang ui un uo",
    "sh": "a ai an ang ao e ei en eng i ou u ua uai uan uang ui un uo",
    "r": "an ang ao e en eng i ong ou u uan ui un uo",
    "z": "a ai an ang ao e ei en eng i ong ou u uan ui un uo",
    "c": "a ai an ang ao e en eng i ong ou u uan ui un uo",
    "s": "a ai an ang ao e en eng i ong ou u uan ui un uo",
    "y": "a an ang ao e i in ing o ong ou u uan ue un",
    "w": "a ai an ang ei en eng o u",
    "": "a ai an ang ao e ei en er ou",
}


def _list_pinyin_syllables(initials: Iterable[str]) -> str:
    """Returns an alternation of the syllables with these initials, the longest first."""
    syllables = [
        initial + final for initial in initials for final in _PINYIN_FINALS[initial].split()
    ]
    return (
        "(?:" + "|".join(sorted(syllables, key=lambda syllable: (-len(syllable), syllable))) + ")"
    )


_PINYIN_SYLLABLE = _list_pinyin_syllables(_PINYIN_FINALS)
PINYIN_NAME_PATTERN = rf"\A{_PINYIN_SYLLABLE}{{1,3}}\z"
# a given name of two syllables of which one is hardly part of a word of another language
# (`Xiaoming`, `Haoran`)
_DISTINCTIVE_SYLLABLE = "(?:zh[a-z]+|[qx][iu][a-z]*|j[iu](?:a|an|ang|ao|e|n|ng|ong|u|uan|ue|un)|[a-z]*(?:ao|iang|uang|iong|uan|uo|ei|ong)|zi|yue?)"  # noqa: E501
PINYIN_GIVEN_NAME_PATTERN = rf"\A{_PINYIN_SYLLABLE}{_PINYIN_SYLLABLE}\z"
DISTINCTIVE_PINYIN_PATTERN = (
    rf"\A(?:{_DISTINCTIVE_SYLLABLE}{_PINYIN_SYLLABLE}|{_PINYIN_SYLLABLE}{_DISTINCTIVE_SYLLABLE})\z"
)
# second syllables of names of places: `Chenzhou`, `Mangshan`
PINYIN_PLACE_PATTERN = r"(?:zhou|shan|xian|cun|hai)\z"


@dataclass(frozen=True, repr=False)
class NameLexicon:
    """The flags of words, looked up by hash. A chain of hash tables without probing: a word whose
    slot is occupied is in the next table."""

    hashes: U64
    flags: I32
    slots: I32  # one row a table: the entry in each slot, 0 for none

    def lookup_flags(self, hashes: U64) -> I32:
        """Returns the flags of every word of a column, given its hashes; 0 for an unknown word."""
        found = np.empty(len(hashes), np.int32)
        text_words.lookup_flags(hashes, self.slots, _SLOT_BITS, self.hashes, self.flags, found)
        return found


_SLOT_BITS = 18
LEXICON_FILE = Path(__file__).with_name("name_lexicon.npy")
_ENTRY = np.dtype([("hash", "<u8"), ("flags", "<i4")])


def _slot_of(hashes: U64, table_no: int) -> I64:
    return ((hashes >> np.uint64(table_no * _SLOT_BITS)) & np.uint64((1 << _SLOT_BITS) - 1)).astype(
        np.int64
    )


@functools.cache
def load_name_lexicon() -> NameLexicon:
    """Returns the built-in lexicon; read once per process."""
    entries = np.load(LEXICON_FILE)
    hashes = np.append(np.uint64(0), entries["hash"])
    flags = np.append(np.int32(0), entries["flags"])
    slots: list[I32] = []
    rows = np.arange(1, len(hashes))
    while len(rows):
        table = np.zeros(1 << _SLOT_BITS, np.int32)
        slot = _slot_of(hashes[rows], len(slots))
        table[slot] = rows
        slots.append(table)
        rows = rows[table[slot] != rows]
        assert len(slots) * _SLOT_BITS < 64 or not len(rows)
    return NameLexicon(hashes, flags, np.stack(slots))


def list_flagged_words() -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Returns the words of the lists of this module and of Faker, as rows of the hash of a word and
    its flags, by word: what `LEXICON_FILE` holds."""
    given_names, surnames = faker_names()
    flagged = [
        _flag_words(given_names, GIVEN_NAME),
        _flag_words(surnames, SURNAME),
        _flag_words(_lowercase_words(COMMON_WORDS), COMMON_WORD),
        _flag_words(_list_countries_and_states(), PLACE),
    ]
    for words, flag in (
        (_COMMON_WORDS, COMMON_WORD),
        (_CITIES, PLACE),
        (_ORGANIZATION_WORDS, ORGANIZATION),
        (_STOP_WORDS, STOP_WORD),
        (_TITLE_WORDS, TITLE),
        (_GREETINGS, GREETING),
        (_CLOSINGS, CLOSING),
        (_PARTICLES, PARTICLE),
        (_CHINESE_SURNAMES, CHINESE_SURNAME),
        (_NAME_CUES, NAME_CUE),
        (_VERBS_AFTER_NAME, VERB_AFTER_NAME),
        (_PLACE_PREPOSITIONS, PLACE_PREPOSITION),
        (_FORM_FIELDS, FORM_FIELD),
        (_PLACE_PREFIXES, PLACE_PREFIX),
        (_ROLES, ROLE),
        (_AUTHORSHIP_VERBS, AUTHORSHIP_VERB),
        (_REQUESTS, REQUEST),
        (_ASSENTS, ASSENT),
        (_LIST_WORDS, LIST_WORD),
        (_RELATIONS, RELATION),
        (_EVERYDAY_GIVEN_NAMES, EVERYDAY_GIVEN_NAME),
        (_PERSONAL_VERBS, PERSONAL_VERB),
    ):
        flagged.append(_flag_words(words.split(), flag))
    lexicon = pl.concat(flagged).group_by("word").agg(pl.col("flag").bitwise_or()).sort("word")
    tokens = tokenize_unicode(TextBuffers.from_array(to_large_string(lexicon["word"])))
    is_single_word = np.bincount(tokens.text_no, minlength=lexicon.height) == 1
    entries = np.zeros(int(is_single_word.sum()), _ENTRY)
    entries["hash"] = tokens.hashes[is_single_word[tokens.text_no]]
    entries["flags"] = lexicon["flag"].to_numpy()[is_single_word]
    return entries


def _flag_words(words: Iterable[str], flag: int) -> pl.DataFrame:
    """Returns words with a flag, as the columns word and flag."""
    return pl.DataFrame({"word": list(words)}, {"word": pl.String}).with_columns(
        flag=pl.lit(flag, pl.Int32)
    )


def _list_countries_and_states() -> set[str]:
    """Returns the countries and the states of the United States whose name is a single word, in
    lower case."""
    from faker.providers.address.en import Provider as Countries
    from faker.providers.address.en_US import Provider as States

    return {name.lower() for name in (*Countries.countries, *States.states) if name.isalpha()}


def _lowercase_words(texts: Iterable[str]) -> set[str]:
    """Returns the words of some texts in lower case, those of two letters or more."""
    words = (
        pl.Series(list(texts), dtype=pl.String)
        .str.to_lowercase()
        .str.extract_all(r"[\p{L}\p{M}]{2,}")
    )
    return set(words.explode().drop_nulls().to_list())


# ---- cells that are a name ----

_MAX_BYTES = 60  # of a cell that is a name
_ADDRESS_PATTERN = r"\s*<[^<>]*>\s*$"
# two to four words, each with a capital, an initial or a particle
_NAME_PATTERN = r"^\s*\p{Lu}[\p{L}\p{M}'’.-]*,?(?:\s+(?:\p{Lu}[\p{L}\p{M}'’.-]*|de|da|van|von|der|del|la|bin|al),?){1,3}\s*$"  # noqa: E501


def count_name_cells(columns: Sequence[pa.LargeStringArray]) -> list[tuple[int, int]]:
    """For each column (cells that are a name, cells that are not empty). A name has a given name of
    the lexicon, and no word of organizations or places.

    >>> cells = ["Maria Kowalski", "Roe, Ann", "Annual report", "zyq77", "", None]
    >>> count_name_cells([pa.array(cells, pa.large_string())])
    [(2, 4)]
    """
    if not columns:
        return []
    # each regular expression is compiled once for all columns
    texts = fill_null_texts(pa.concat_arrays(columns))
    column_no = np.repeat(np.arange(len(columns)), [len(column) for column in columns])
    is_filled = np.asarray(pc.match_substring_regex(texts, r"\S"))
    filled = np.bincount(column_no[is_filled], minlength=len(columns)).tolist()
    is_short = np.asarray(pc.less_equal(pc.binary_length(texts), _MAX_BYTES))
    cells = pc.replace_substring_regex(texts.filter(pa.array(is_short)), _ADDRESS_PATTERN, "")
    has_form = np.asarray(pc.match_substring_regex(cells, _NAME_PATTERN))
    cells, column_no = cells.filter(pa.array(has_form)), column_no[is_short][has_form]
    if not len(cells):
        return [(0, count) for count in filled]
    text_no, flags = lookup_words(cells)

    def has_word(
        selected: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.bincount(text_no[selected], minlength=len(cells)) > 0

    is_given_name = (flags & GIVEN_NAME > 0) & (flags & (COMMON_WORD | PLACE) == 0)
    is_name = has_word(is_given_name) & ~has_word(flags & (ORGANIZATION | STOP_WORD | PLACE) > 0)
    return [
        *zip(np.bincount(column_no[is_name], minlength=len(columns)).tolist(), filled, strict=True)
    ]


# words that are no part of a name
_ORDINARY = COMMON_WORD | STOP_WORD | PLACE | ORGANIZATION | LIST_WORD | FORM_FIELD | TITLE
_FULL_NAME_PATTERN = (
    r"^\s*[\p{Lu}\p{Lo}][\p{L}\p{M}'’.-]*(?:\s+[\p{Lu}\p{Lo}][\p{L}\p{M}'’.-]*){1,3}\s*$"
)


def find_name_like(texts: pa.LargeStringArray) -> Mask:
    """True for texts of two to four words with capitals, none of which is an ordinary word: names
    that no list has, too.

    >>> find_name_like(pa.array(["Zyq Blorbax", "Price List", "zyq blorbax"], pa.large_string()))
    array([ True, False, False])
    """
    has_form = np.asarray(pc.match_substring_regex(texts, _FULL_NAME_PATTERN))
    is_like = has_form.copy()
    is_like[has_form] = count_ordinary_words(texts.filter(pa.array(has_form)))[0] == 0
    return is_like


def count_ordinary_words(texts: pa.LargeStringArray) -> tuple[I64, I64]:
    """For each text the number of its words that are ordinary ones, and of all."""
    text_no, flags = lookup_words(texts)
    is_ordinary = flags & _ORDINARY > 0
    return (
        np.bincount(text_no[is_ordinary], minlength=len(texts)),
        np.bincount(text_no, minlength=len(texts)),
    )


def lookup_words(texts: pa.LargeStringArray) -> tuple[I64, I32]:
    """The words of a column of texts: the number of the text and the flags of each."""
    tokens = tokenize_unicode(TextBuffers.from_array(texts))
    return np.asarray(tokens.text_no, np.int64), load_name_lexicon().lookup_flags(tokens.hashes)
