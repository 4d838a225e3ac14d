#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""French and English sentences that a small grammar makes together, to train translators on what a
corpus of short sentences has little of: relative clauses, the passive, agreement of participles.

    grammar_pairs.py COUNT [SEED] >pairs.tsv       # French TAB English

Every rule makes both sides from the same choice of words, so that the pairs are exact.
"""
import random
import sys

rng = random.Random(1)
pick = lambda items: items[rng.randrange(len(items))]

# ---- nouns: French, gender, number, English, kind -----------------------------------------------
# French plurals add s unless given; English ones too.

NOUNS = [  # kind: p person, a animal, o organisation, d document, t thing, f food, l place
    line.split("|") for line in """
homme|m|hommes|man|men|p
femme|f|femmes|woman|women|p
garçon|m|garçons|boy|boys|p
fille|f|filles|girl|girls|p
enfant|m|enfants|child|children|p
médecin|m|médecins|doctor|doctors|p
voisin|m|voisins|neighbor|neighbors|p
voisine|f|voisines|neighbor|neighbors|p
étudiant|m|étudiants|student|students|p
étudiante|f|étudiantes|student|students|p
professeur|m|professeurs|teacher|teachers|p
client|m|clients|customer|customers|p
cliente|f|clientes|customer|customers|p
directeur|m|directeurs|manager|managers|p
directrice|f|directrices|manager|managers|p
employé|m|employés|employee|employees|p
avocat|m|avocats|lawyer|lawyers|p
infirmière|f|infirmières|nurse|nurses|p
policier|m|policiers|policeman|policemen|p
ami|m|amis|friend|friends|p
amie|f|amies|friend|friends|p
voleur|m|voleurs|thief|thieves|p
ouvrier|m|ouvriers|worker|workers|p
actrice|f|actrices|actress|actresses|p
touriste|m|touristes|tourist|tourists|p
chat|m|chats|cat|cats|a
chien|m|chiens|dog|dogs|a
cheval|m|chevaux|horse|horses|a
oiseau|m|oiseaux|bird|birds|a
lapin|m|lapins|rabbit|rabbits|a
souris|f|souris|mouse|mice|a
vache|f|vaches|cow|cows|a
renard|m|renards|fox|foxes|a
banque|f|banques|bank|banks|o
entreprise|f|entreprises|company|companies|o
école|f|écoles|school|schools|o
gouvernement|m|gouvernements|government|governments|o
hôpital|m|hôpitaux|hospital|hospitals|o
université|f|universités|university|universities|o
tribunal|m|tribunaux|court|courts|o
prêt|m|prêts|loan|loans|d
contrat|m|contrats|contract|contracts|d
demande|f|demandes|request|requests|d
projet|m|projets|project|projects|d
facture|f|factures|bill|bills|d
budget|m|budgets|budget|budgets|d
accord|m|accords|agreement|agreements|d
rapport|m|rapports|report|reports|d
lettre|f|lettres|letter|letters|w
livre|m|livres|book|books|w
journal|m|journaux|newspaper|newspapers|w
article|m|articles|article|articles|w
poème|m|poèmes|poem|poems|w
message|m|messages|message|messages|w
voiture|f|voitures|car|cars|t
maison|f|maisons|house|houses|t
clé|f|clés|key|keys|t
montre|f|montres|watch|watches|t
chaise|f|chaises|chair|chairs|t
vélo|m|vélos|bicycle|bicycles|t
ordinateur|m|ordinateurs|computer|computers|t
valise|f|valises|suitcase|suitcases|t
parapluie|m|parapluies|umbrella|umbrellas|t
photo|f|photos|photo|photos|t
robe|f|robes|dress|dresses|t
chapeau|m|chapeaux|hat|hats|t
cadeau|m|cadeaux|present|presents|t
table|f|tables|table|tables|t
gâteau|m|gâteaux|cake|cakes|f
pomme|f|pommes|apple|apples|f
soupe|f|soupes|soup|soups|f
repas|m|repas|meal|meals|f
poisson|m|poissons|fish|fish|f
fromage|m|fromages|cheese|cheeses|f
""".strip().splitlines()]
BY_KIND = {kind: [n for n in NOUNS if n[5] in kind] for kind in
           ("p", "a", "o", "d", "w", "t", "f", "pa", "pao", "po", "tw", "twf", "dw", "paotwf")}

VOWELS = "aeéèêiouyhâôîAEÉIOUH"
elide = lambda word, after: word[:-1] + "'" + after if after[0] in VOWELS else word + " " + after

ADJECTIVES = {  # after the noun: masculine, feminine, English; plurals add s unless there is one
    "p": [("malade", "malade", "sick"), ("fatigué", "fatiguée", "tired"), ("français", "française", "French")],
    "a": [("blanc", "blanche", "white"), ("noir", "noire", "black"), ("malade", "malade", "sick"),
          ("fatigué", "fatiguée", "tired")],
    "o": [("étranger", "étrangère", "foreign"), ("privé", "privée", "private"), ("public", "publique", "public")],
    "d": [("important", "importante", "important"), ("secret", "secrète", "secret"),
          ("dangereux", "dangereuse", "dangerous")],
    "w": [("intéressant", "intéressante", "interesting"), ("important", "importante", "important"),
          ("anglais", "anglaise", "English")],
    "t": [("rouge", "rouge", "red"), ("vert", "verte", "green"), ("noir", "noire", "black"),
          ("bleu", "bleue", "blue"), ("cher", "chère", "expensive")],
    "f": [("froid", "froide", "cold"), ("chaud", "chaude", "hot"), ("délicieux", "délicieuse", "delicious")],
}
BEFORE = {"p": [("jeune", "jeune", "young"), ("petit", "petite", "little")],
          "a": [("petit", "petite", "small"), ("jeune", "jeune", "young"), ("gros", "grosse", "big")],
          "t": [("petit", "petite", "small"), ("grand", "grande", "big"), ("nouveau", "nouvelle", "new")],
          "o": [("grand", "grande", "big"), ("petit", "petite", "small")]}


def adjective(form, gender, plural):
    word = form[0] if gender == "m" else form[1]
    return word + ("x" if word.endswith("eau") else "" if word[-1] in "sx" else "s") * plural


class Phrase:
    """A noun phrase: both texts, gender, plural, kind, and person of the verb (1 to 6)."""

    def __init__(self, fr, en, gender="m", plural=False, kind="p", person=3):
        self.fr, self.en, self.gender, self.plural, self.kind = fr, en, gender, plural, kind
        self.person = 6 if plural and person == 3 else person

    def agree(self, participle):
        return participle + ("e" if self.gender == "f" else "") + ("s" if self.plural and participle[-1] != "s" else "")


FIRST = {adjective(form, gender, True) for forms in BEFORE.values() for form in forms for gender in "mf"}
UNOWNED = set("homme femme garçon fille touriste policier voleur ouvrier actrice gouvernement tribunal".split())
OWNERS = [(("mon", "ma", "mes"), "my"), (("ton", "ta", "tes"), "your"), (("son", "sa", "ses"), "his"),
          (("son", "sa", "ses"), "her"), (("notre", "notre", "nos"), "our"), (("votre", "votre", "vos"), "your")]


def noun(kinds, determiners="the the the a this my", plural=None):
    fr, gender, frs, en, ens, kind = pick(BY_KIND[kinds])
    many = rng.random() < 0.25 if plural is None else plural
    head_fr, head_en = (frs, ens) if many else (fr, en)
    roll = rng.random()
    if roll < 0.15 and kind in BEFORE:
        form = pick(BEFORE[kind])
        if not (fr[0] in VOWELS and form[0] in ("nouveau",)) or gender == "f" or many:
            head_fr, head_en = adjective(form, gender, many) + " " + head_fr, form[2] + " " + head_en
    elif roll < 0.3:
        form = pick(ADJECTIVES[kind])
        head_fr += " " + adjective(form, gender, many)
        head_en = form[2] + " " + head_en
    which = pick(determiners.split())
    if which == "my" and fr in UNOWNED:
        which = "the"
    vowel = head_fr[0] in VOWELS
    if which == "the":
        f, e = ("les " if many else "l'" if vowel else "le " if gender == "m" else "la "), "the "
    elif which == "a":
        f = "des " if many else "un " if gender == "m" else "une "
        e = "" if many else "an " if head_en[0] in "aeio" or head_en.startswith("um") else "a "
        if many and head_fr.split()[0] in FIRST:
            f = "de "
    elif which == "this":
        f = "ces " if many else ("cet " if vowel else "ce ") if gender == "m" else "cette "
        e = pick(("these ", "these ", "those ")) if many else pick(("this ", "this ", "that "))
    else:
        forms, owner = pick(OWNERS)
        f = forms[2] if many else forms[0] if gender == "m" or vowel else forms[1]
        f, e = f + " ", owner + " "
    return Phrase(f + head_fr, e + head_en, gender, many, kind)


NAMES = [Phrase("Tom", "Tom"), Phrase("Marie", "Mary", "f"), Phrase("Jean", "John"), Phrase("Alice", "Alice", "f")]
PRONOUNS = [Phrase("je", "I", person=1), Phrase("tu", "you", person=2), Phrase("il", "he"), Phrase("elle", "she", "f"),
            Phrase("on", "we"), Phrase("nous", "we", plural=True, person=4), Phrase("vous", "you", person=5),
            Phrase("ils", "they", plural=True), Phrase("elles", "they", "f", True)]
AVOIR = ["ai", "as", "a", "avons", "avez", "ont"]
ETRE = ["suis", "es", "est", "sommes", "êtes", "sont"]
AVAIT = ["avais", "avais", "avait", "avions", "aviez", "avaient"]
ALLER = ["vais", "vas", "va", "allons", "allez", "vont"]


def subject(kinds="p"):
    roll = rng.random()
    if kinds == "p" and roll < 0.45:
        return pick(PRONOUNS)
    if kinds == "p" and roll < 0.7:
        return pick(NAMES)
    return noun(kinds)


def finite(s, verb):
    """Subject and verb: j'ai, tu as, la banque a."""
    return elide("je", verb) if s.fr == "je" else f"{s.fr} {verb}"


def que(fr):
    return elide("que", fr)


# ---- verbs: participle, infinitive, English past, participle, base; kinds of subject and of object ----

TRANSITIVE = [
    ("approuvé", "approuver", "approved", "approved", "approve", "po", "d"),
    ("refusé", "refuser", "refused", "refused", "refuse", "po", "d"),
    ("signé", "signer", "signed", "signed", "sign", "p", "d"),
    ("accepté", "accepter", "accepted", "accepted", "accept", "po", "d"),
    ("étudié", "étudier", "studied", "studied", "study", "po", "d"),
    ("rejeté", "rejeter", "rejected", "rejected", "reject", "po", "d"),
    ("vu", "voir", "saw", "seen", "see", "p", "paotwf"),
    ("trouvé", "trouver", "found", "found", "find", "p", "tw"),
    ("cherché", "chercher", "looked for", "looked for", "look for", "p", "tw"),
    ("acheté", "acheter", "bought", "bought", "buy", "p", "twf"),
    ("vendu", "vendre", "sold", "sold", "sell", "p", "twf"),
    ("perdu", "perdre", "lost", "lost", "lose", "p", "tw"),
    ("volé", "voler", "stole", "stolen", "steal", "p", "t"),
    ("cassé", "casser", "broke", "broken", "break", "p", "t"),
    ("réparé", "réparer", "repaired", "repaired", "repair", "p", "t"),
    ("lu", "lire", "read", "read", "read", "p", "w"),
    ("écrit", "écrire", "wrote", "written", "write", "p", "w"),
    ("reçu", "recevoir", "received", "received", "receive", "po", "dw"),
    ("envoyé", "envoyer", "sent", "sent", "send", "po", "w"),
    ("mangé", "manger", "ate", "eaten", "eat", "p", "f"),
    ("préparé", "préparer", "prepared", "prepared", "prepare", "p", "f"),
    ("goûté", "goûter", "tasted", "tasted", "taste", "p", "f"),
    ("rencontré", "rencontrer", "met", "met", "meet", "p", "p"),
    ("invité", "inviter", "invited", "invited", "invite", "p", "p"),
    ("aidé", "aider", "helped", "helped", "help", "p", "p"),
    ("aimé", "aimer", "loved", "loved", "love", "p", "p"),
    ("attendu", "attendre", "waited for", "waited for", "wait for", "p", "p"),
    ("photographié", "photographier", "photographed", "photographed", "photograph", "p", "pa"),
    ("nourri", "nourrir", "fed", "fed", "feed", "p", "a"),
    ("suivi", "suivre", "followed", "followed", "follow", "pa", "pa"),
    ("attrapé", "attraper", "caught", "caught", "catch", "pa", "a"),
    ("oublié", "oublier", "forgot", "forgotten", "forget", "p", "tw"),
    ("choisi", "choisir", "chose", "chosen", "choose", "po", "twf"),
    ("payé", "payer", "paid for", "paid for", "pay for", "p", "twf"),
]
# what is said of a noun: auxiliary (e être, r reflexive, a avoir), participle, English past, kinds
INTRANSITIVE = [
    ("r", "enfui", "ran away", "pa"), ("e", "mort", "died", "pa"), ("e", "parti", "left", "p"),
    ("e", "arrivé", "arrived", "pw"), ("e", "revenu", "came back", "pa"), ("r", "endormi", "fell asleep", "pa"),
    ("r", "caché", "hid", "pa"), ("e", "tombé", "fell", "pat"), ("a", "disparu", "disappeared", "patwd"),
    ("a", "menti", "lied", "p"), ("e", "entré", "came in", "pa"), ("e", "sorti", "went out", "pa"),
    ("a", "ri", "laughed", "p"), ("a", "pleuré", "cried", "p"), ("a", "brûlé", "burned", "twf"),
    ("a", "fermé", "closed", "o"), ("r", "perdu", "got lost", "pa"), ("a", "échoué", "failed", "p"),
    ("a", "sauté par la fenêtre", "jumped out of the window", "pa"),
    ("a", "dormi toute la journée", "slept all day", "pa"),
    ("a", "traversé la rue", "crossed the street", "pa"), ("a", "appelé la police", "called the police", "p"),
    ("a", "coûté cher", "was expensive", "t"), ("a", "gagné beaucoup d'argent", "earned a lot of money", "po"),
    ("a", "perdu beaucoup d'argent", "lost a lot of money", "po"),
]
STATES = {  # masculine, feminine, English
    "p": [("malade", "malade", "sick"), ("content", "contente", "happy"),
          ("très gentil", "très gentille", "very kind"),
          ("fatigué", "fatiguée", "tired"), ("en colère", "en colère", "angry"), ("riche", "riche", "rich"),
          ("en retard", "en retard", "late"), ("à la maison", "à la maison", "at home")],
    "a": [("très gros", "très grosse", "very big"), ("malade", "malade", "sick"), ("noir", "noire", "black"),
          ("dans le jardin", "dans le jardin", "in the garden"), ("sous la table", "sous la table", "under the table"),
          ("sur le toit", "sur le toit", "on the roof")],
    "o": [("fermé", "fermée", "closed"), ("loin d'ici", "loin d'ici", "far from here"),
          ("ouvert", "ouverte", "open")],
    "d": [("important", "importante", "important"), ("prêt", "prête", "ready"),
          ("trop compliqué", "trop compliquée", "too complicated")],
    "w": [("intéressant", "intéressante", "interesting"), ("très long", "très longue", "very long"),
          ("sur la table", "sur la table", "on the table"),
          ("ennuyeux", "ennuyeuse", "boring")],
    "t": [("trop cher", "trop chère", "too expensive"), ("dans la cuisine", "dans la cuisine", "in the kitchen"),
          ("cassé", "cassée", "broken"), ("à moi", "à moi", "mine"), ("neuf", "neuve", "new")],
    "f": [("délicieux", "délicieuse", "delicious"), ("trop salé", "trop salée", "too salty"),
          ("froid", "froide", "cold")],
}
TIMES = [("hier", "yesterday"), ("ce matin", "this morning"), ("hier soir", "last night"),
         ("la semaine dernière", "last week"),
         ("lundi", "on Monday"), ("le mois dernier", "last month"), ("il y a deux jours", "two days ago"),
         ("l'année dernière", "last year"), ("aujourd'hui", "today"), ("il y a trois ans", "three years ago"),
         ("hier après-midi", "yesterday afternoon"), ("ce soir-là", "that evening")]
LATER = [("demain", "tomorrow"), ("la semaine prochaine", "next week"), ("bientôt", "soon"),
         ("lundi prochain", "next Monday"), ("ce soir", "tonight")]


def when(items=TIMES, share=0.5):
    return tuple(" " + word for word in pick(items)) if rng.random() < share else ("", "")


def state(n):
    form = pick(STATES[n.kind])
    word = form[0] if n.gender == "m" else form[1]
    last = word.split()[0 if word.split()[0] not in ("très", "trop") else 1]
    invariable = word.split()[0] in ("en", "à", "dans", "sous", "sur", "loin")
    if n.plural and not invariable:
        word = word.replace(last, last + ("" if last[-1] in "sx" else "s"), 1)
    return word, form[2]


def be(n, past):
    return ("étaient" if n.plural else "était", "were" if n.plural else "was") if past else \
           ("sont" if n.plural else "est", "are" if n.plural else "is")


def intransitive(s):
    """Of a third person: the French and English predicate in the past."""
    kind, done, en, _ = pick([v for v in INTRANSITIVE if s.kind in v[3]])
    if kind == "a":
        return (AVOIR[s.person - 1] + " " + done), en
    word = s.agree(done)
    return (elide("se", ETRE[s.person - 1]) if kind == "r" else ETRE[s.person - 1]) + " " + word, en


def transitive(determiners="the the the a this my"):
    """A verb, its subject and its object."""
    verb = pick(TRANSITIVE)
    s = subject(verb[5])
    o = noun(verb[6], determiners)
    return verb, s, o


def predicate(n):
    """What is said of a noun phrase, in the past or as a state."""
    roll = rng.random()
    possible = any(n.kind in v[3] for v in INTRANSITIVE)
    if possible and roll < 0.6:
        fr, en = intransitive(n)
        t = when(share=0.15)
        return fr + t[0], en + t[1]
    past = rng.random() < 0.5
    fr, en = state(n)
    b = be(n, past)
    return f"{b[0]} {fr}", f"{b[1]} {en}"


# ---- sentences --------------------------------------------------------------------------------------


def simple():
    """La banque a approuvé le prêt hier."""
    v, s, o = transitive()
    t = when(share=0.7)
    return f"{finite(s, AVOIR[s.person - 1])} {v[0]} {o.fr}{t[0]}.", f"{s.en} {v[2]} {o.en}{t[1]}."


def negative():
    v, s, o = transitive("the the this my")  # not "un", which becomes "de"
    t = when(share=0.5)
    fr = "je n'ai pas" if s.fr == "je" else f"{s.fr} n'{AVOIR[s.person - 1]} pas"
    did = pick(("did not", "didn't", "didn't"))
    return f"{fr} {v[0]} {o.fr}{t[0]}.", f"{s.en} {did} {v[4]} {o.en}{t[1]}."


def future():
    v, s, o = transitive()
    t = when(LATER, 0.7)
    going = "am going to" if s.en == "I" else "are going to" if s.plural or s.en in ("we", "you") else "is going to"
    will = pick((going, "will"))
    return f"{finite(s, ALLER[s.person - 1])} {v[1]} {o.fr}{t[0]}.", f"{s.en} {will} {v[4]} {o.en}{t[1]}."


def passive():
    """Le prêt a été approuvé par la banque."""
    v = pick([v for v in TRANSITIVE if v[0] not in ("cherché", "attendu", "vu", "aimé", "payé", "oublié")])
    o, t = noun(v[6]), when(share=0.4)
    s = noun(v[5], "the the a my")
    by = rng.random() < 0.6
    fr = f"{o.fr} {'ont' if o.plural else 'a'} été {o.agree(v[0])}{' par ' + s.fr if by else ''}{t[0]}."
    return fr, f"{o.en} {'were' if o.plural else 'was'} {v[3]}{' by ' + s.en if by else ''}{t[1]}."


def clause(o_kinds):
    """A noun with a relative clause of which it is the object: le chat que j'ai vu hier."""
    v = pick([v for v in TRANSITIVE if set(v[6]) & set(o_kinds) and v[6] in BY_KIND])
    o = noun(v[6], "the the the the this")
    s, t = subject(v[5]), when(share=0.6)
    link = pick((" that ", " that ", " ")) if o.kind != "p" else pick((" that ", " who ", " "))
    tense, past = (AVOIR, v[2]) if rng.random() < 0.85 else (AVAIT, "had " + v[3])
    fr = f"{o.fr} {que(finite(s, tense[s.person - 1]))} {o.agree(v[0])}{t[0]}"
    return Phrase(fr, f"{o.en}{link}{s.en} {past}{t[1]}", o.gender, o.plural, o.kind)


def relative_object():
    """Le chat que j'ai vu hier s'est enfui."""
    n = clause(pick(("pa", "pa", "tw", "d", "f")))
    fr, en = predicate(n)
    return f"{n.fr} {fr}.", f"{n.en} {en}."


def relative_subject():
    """L'homme qui a appelé la police est malade."""
    n = noun(pick(("p", "p", "a", "o")), "the the the a")
    roll = rng.random()
    link = pick((" who ", " that ", " who ")) if n.kind == "p" else pick((" that ", " which ", " that "))
    possible = [v for v in TRANSITIVE if n.kind in v[5]]
    if roll < 0.6 and possible:
        v = pick(possible)
        o, t = noun(v[6]), when(share=0.4)
        fr, en = f"{AVOIR[n.person - 1]} {v[0]} {o.fr}{t[0]}", f"{v[2]} {o.en}{t[1]}"
    else:
        fr, en = intransitive(n)
    whole = Phrase(f"{n.fr} qui {fr}", f"{n.en}{link}{en}", n.gender, n.plural, n.kind)
    fr, en = predicate(whole)
    return f"{whole.fr} {fr}.", f"{whole.en} {en}."


def relative_last():
    """J'ai lu le livre que tu as acheté."""
    v = pick([v for v in TRANSITIVE if v[6] != "paotwf"])
    s = subject(v[5])
    n = clause(v[6])
    if n.kind not in v[6] or s in NAMES and s.fr in n.fr:
        return relative_last()
    return f"{finite(s, AVOIR[s.person - 1])} {v[0]} {n.fr}.", f"{s.en} {v[2]} {n.en}."


def whose():
    """La femme dont je t'ai parlé est partie."""
    n = noun(pick(("p", "p", "w", "t", "a")), "the the the this")
    s, fr_to, en_to = pick([(PRONOUNS[0], "t'ai", "you"), (PRONOUNS[0], "vous ai", "you"),
                            (PRONOUNS[1], "m'as", "me"),
                            (PRONOUNS[2], "m'a", "me"), (PRONOUNS[3], "nous a", "us"), (NAMES[0], "m'a", "me")])
    link = pick((" ", " that "))
    whole = Phrase(f"{n.fr} dont {s.fr} {fr_to} parlé", f"{n.en}{link}{s.en} told {en_to} about", n.gender,
                   n.plural, n.kind)
    fr, en = predicate(whole)
    return f"{whole.fr} {fr}.", f"{whole.en} {en}."


def question():
    """Est-ce que la banque a approuvé le prêt ?"""
    v, s, o = transitive()
    t = when(share=0.5)
    fr = elide("est-ce que", finite(s, AVOIR[s.person - 1]))
    return f"{fr} {v[0]} {o.fr}{t[0]} ?", f"did {s.en} {v[4]} {o.en}{t[1]}?"


def which():
    """Où est le livre que j'ai acheté ?"""
    n = clause(pick(("tw", "pa", "tw")))
    return (f"où {'sont' if n.plural else 'est'} {n.fr} ?", f"where {'are' if n.plural else 'is'} {n.en}?")


def this_is():
    """C'est le chat que j'ai vu hier."""
    n = clause(pick(("pa", "tw", "d", "f")))
    if n.fr.startswith("ce"):
        return this_is()
    these = "these are" if n.plural else pick(("this is", "that's", "it's"))
    ce = "ce sont" if n.plural else "c'est"
    return f"{ce} {n.fr}.", f"{these} {n.en}."


RULES = [simple] * 4 + [negative] * 2 + [future] * 2 + [passive] * 3 + [relative_object] * 8 + \
        [relative_subject] * 4 + [relative_last] * 3 + [whose] * 2 + [question] * 2 + [which] * 2 + [this_is]


def pair():
    fr, en = pick(RULES)()
    return fr[0].upper() + fr[1:], en[0].upper() + en[1:]


def main():
    count = int(sys.argv[1])
    rng.seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    made = {}
    while len(made) < count:
        made[pair()] = True
    sys.stdout.writelines(f"{fr}\t{en}\n" for fr, en in made)


if __name__ == "__main__":
    main()
