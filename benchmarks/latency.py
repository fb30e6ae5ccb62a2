"""Time of one call for one mail: vectorizer, model, threshold and certificate.

Generated mails of about 130 tokens, as texts; 2000 for training with 10,000 words. Milliseconds of
processor time, the median and the 99 % quantile of 1000 calls, after 100 others.
"""

from __future__ import annotations

from performance import as_texts, mails, milliseconds_of
from report import parser_of, table, write_record
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline

from structinv import InvariantLinearSVC, InvariantTextClassifier, certify
from structinv.inspection import explain_edit
from structinv.oracles import FDrop


def main() -> None:
    options = parser_of(__doc__).parse_args()
    X, y = mails(2000)
    texts = as_texts(X)
    words = InvariantLinearSVC(FDrop(5), C=0.01, fit_intercept=False, random_state=0)
    pipeline = make_pipeline(CountVectorizer(), words).fit(texts, y)
    moved = FixedThresholdClassifier(
        FrozenEstimator(pipeline), threshold=0.1, pos_label="spam", response_method="decision_function"
    ).fit(texts, y)
    tokens = InvariantTextClassifier("drop", 5, CountVectorizer(), C=0.01, random_state=0)
    tokens.fit(texts, y)
    one = texts[:1]
    calls = {
        "Pipeline with CountVectorizer, predict": lambda: pipeline.predict(one),
        "the same, certify": lambda: certify(pipeline, None, one),
        "with a threshold, predict": lambda: moved.predict(one),
        "with a threshold, certify": lambda: certify(moved, FDrop(5), one),
        "InvariantTextClassifier, predict": lambda: tokens.predict(one),
        "InvariantTextClassifier, certify": lambda: tokens.certify(one),
        "InvariantTextClassifier, explain_edit": lambda: explain_edit(tokens, one),
    }
    rows = [[name, *milliseconds_of(call, 1100)] for name, call in calls.items()]
    n_tokens = len(texts[0].split())
    title = f"Milliseconds of a call for one mail of {n_tokens} tokens"
    print(table(title, ["call", "median, ms", "99 %, ms"], rows, "mail"))
    write_record(options.record, f"a generated mail of {n_tokens} tokens", "0")


if __name__ == "__main__":
    main()
