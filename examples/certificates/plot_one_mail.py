"""
The five words this decision hangs on
=====================================

What you will learn: how to find the words that decide one prediction, and how to prove that no other
words can change it.

A sender of spam deletes or disguises the words that a filter recognizes. How many deletions does a mail
need to pass? The example compares a plain filter with one that is trained for deletions.
"""

# %%
# Generate mails
# --------------
#
# Every mail contains phrases of its class and common phrases. Half of the mails contain a phrase of the
# other class.

import re
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from structinv import InvariantTextClassifier
from structinv.inspection import explain_edit
from structinv.oracles import TokenEdits

phrases = {
    "spam": "you are a winner/claim your free prize now/urgent offer/cash bonus guaranteed/"
    "limited discount on pills/get a cheap loan today/earn extra money at home/no credit check/"
    "act now before the offer expires/lowest price online/win a luxury holiday/free trial without risk",
    "ham": "see you at the meeting/the report is attached/please review the draft/lunch on monday/"
    "thanks for the slides/the budget is due friday/minutes of the last call/the printer works again/"
    "can we move the deadline/i will book the flights/new figures for the project/sorry for the delay",
    "common": "hope you are well/please let me know/best regards/by the end of the week/call me today/"
    "as we discussed/have a nice day/for details see below/looking forward to your answer",
}
phrases = {label: text.split("/") for label, text in phrases.items()}
rng = np.random.default_rng(0)


def write(label, other):
    parts = [*rng.choice(phrases[label], rng.integers(3, 6), replace=False)]
    parts += [
        *rng.choice(phrases["common"], 3, replace=False),
        *rng.choice(phrases[other], rng.integers(2)),
    ]
    return ", ".join(rng.permutation(parts))


y = np.array(["ham", "spam"] * 400)
texts = [write(*(("ham", "spam") if label == "ham" else ("spam", "ham"))) for label in y]
train, y_train, test, y_test = texts[:400], y[:400], texts[400:], y[400:]

# %%
# Train and certify
# -----------------
#
# Both filters are :class:`~structinv.InvariantTextClassifier`. With ``max_changes=0`` it is a plain
# linear SVM on word counts.

attack = TokenEdits("drop", max_changes=5)
filters = {}
for name, max_changes in [("plain", 0), ("robust", 5)]:
    model = InvariantTextClassifier("drop", max_changes, CountVectorizer(), C=0.1, random_state=0)
    filters[name] = model.fit(train, y_train)
    certificate = model.certify(test, y_test, oracle=attack)
    print(f"{name:<7} accuracy {model.score(test, y_test):.3f}", end="")
    print(f", certified for any 5 deleted words {certificate.accuracy:.3f}")

# %%
# Explain one mail
# ----------------
#
# Take the spam mail with the clearest difference between the filters.
# :func:`~structinv.inspection.explain_edit` returns the five most damaging deletions.

certificates = {name: model.certify(test, y_test, oracle=attack) for name, model in filters.items()}
difference = np.minimum(-certificates["plain"].margins, certificates["robust"].margins)
chosen = np.where(y_test == "spam", difference, -np.inf).argmax()
mail = test[chosen]
found = {name: explain_edit(model, [mail], ["spam"], oracle=attack) for name, model in filters.items()}
print(f"\n{mail}\n")
for name, explanation in found.items():
    print(f"{name}: {explanation}")

# %%
# The upper panels show the mail with the deleted words, the lower panels the score after each deletion.
# A deleted occurrence of a word changes the score by the weight of the word.

fig, axes = plt.subplots(2, 2, figsize=(9, 5), height_ratios=[1, 2], layout="constrained", sharex="row")
colors = {"plain": "0.45", "robust": "#0072B2"}
results = {"plain": "plain filter: the mail passes", "robust": "robust filter: still spam"}
for (text, steps), (name, explanation) in zip(axes.T, found.items(), strict=True):
    deleted = rf"\b({'|'.join(explanation.names)})\b"
    for number, line in enumerate(textwrap.wrap(mail, 42)):
        kept = re.sub(deleted, lambda word: " " * len(word[0]), line)
        lost = "".join(" " if left == right else left for left, right in zip(line, kept, strict=True))
        for characters, color in [
            (kept, "black"),
            (lost, "#D55E00"),
            (re.sub(r"\w", "─", lost), "#D55E00"),
        ]:
            text.text(0, -number, characters, color=color, family="monospace", fontsize=9, va="center")
    text.set(ylim=(-number - 0.7, 0.7))
    text.set_title(results[name], loc="left", color=colors[name])
    text.axis("off")

    labels = ["unedited", *(f"- {word}" for word in explanation.names), "edited"]
    ends = np.array([explanation.margin, *explanation.margins, 0])
    starts = np.array([0, *ends[:-1]])
    steps.barh(labels, ends - starts, left=starts, color=colors[name], alpha=0.5)
    for row, score in [(0, explanation.margin), (6, explanation.edited_margin)]:
        steps.barh(row, score, color=colors[name] if score > 0 else "#D55E00")
    steps.axvline(0, color="black", linewidth=0.8)
    steps.invert_yaxis()
    steps.set(xlabel="score (spam if above 0)", xlim=(-0.4, 2))
fig.suptitle("Five deleted words hide this spam from a plain filter")

# %%
# Result: both filters have an accuracy of 1.000. For any five deleted words, 83 % of the predictions of
# the plain filter are certified, and 99 % of those of the robust filter. The plain filter gives a few
# words, such as "offer", large weights. The robust filter gives many words the same weight, so five of
# them do not decide.
#
# The margins of :class:`~structinv.InvariantTextClassifier` count tokens of the text. A certificate for
# five tokens does not cover the deletion of whole sentences. See also :doc:`/guide/texts`.
