import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatNumber } from "../../base/format.js";
import { isAttackMetric } from "../../evaluation/metric-table.js";
import type { RatingPair, RatingReport } from "../api.js";
import { getMessage, load } from "./api.js";
import type { LiveState } from "./live.js";
import { EmptyState, formatCell, Loading, Problem, ReportPart, Select, useDelayed, useLoaded } from "./widgets.js";

/** People judge pairs of texts without knowing which one was attacked. */
export function RatePage({ live }: { live: LiveState }) {
  const targets = useMemo(
    () =>
      [...live.rows.values()].flatMap(({ id, name, metrics }) =>
        Object.keys(metrics)
          .filter(isAttackMetric)
          .map((attack) => ({ id, attack, title: `${name}, ${attack}` })),
      ),
    [live.rows],
  );
  const [title, setTitle] = useState("");
  const [rater, setRater] = useState("");
  const name = useDelayed(rater.trim(), 300);
  const target = targets.find((each) => each.title === title) ?? targets[0];
  if (!target)
    return live.isReady ? (
      <EmptyState title="Nothing to rate yet">
        <p>Attack a run first. Texts that fooled the model appear here.</p>
      </EmptyState>
    ) : (
      <Loading what="runs" />
    );
  return (
    <article class="rate-page">
      <h1>Rate attacked texts</h1>
      <p class="note">
        Two versions of a text are shown in random order. One of them fooled a model. Judge both without knowing which.
      </p>
      <div class="filters">
        <Select
          title="Attack"
          value={target.title}
          options={targets.map((each) => ({ value: each.title }))}
          onChange={setTitle}
        />
        <label>
          Your name <input type="text" value={rater} onInput={(event) => setRater(event.currentTarget.value)} />
        </label>
      </div>
      <Rating key={`${target.title} ${name}`} id={target.id} attack={target.attack} rater={name} />
    </article>
  );
}

const questions = [
  ["sameMeaning", "Do both texts mean the same?"],
  ["firstGrammatical", "Is text A grammatical?"],
  ["secondGrammatical", "Is text B grammatical?"],
] as const;
type Answers = Partial<Record<(typeof questions)[number][0], boolean>>;

function Rating({ id, attack, rater }: { id: string; attack: string; rater: string }) {
  const [judged, setJudged] = useState<readonly string[]>([]);
  const [skipped, setSkipped] = useState<readonly string[]>([]);
  const [answers, showAnswers] = useState<Answers>({});
  // Keys can be faster than the page, so the answers are also kept outside of what it shows.
  const given = useRef<Answers>({});
  const setAnswers = (next: Answers): void => {
    given.current = next;
    showAnswers(next);
  };
  const [problem, setProblem] = useState<string | null>(null);
  const target = { id, attack };
  const { data, problem: loadProblem } = useLoaded<RatingPair[]>(
    rater === "" ? null : { path: "ratings/pairs", body: { ...target, rater } },
  );
  const { last: report } = useLoaded<RatingReport>({ path: "ratings", body: target, version: judged.length });
  const pairs = data?.filter((each) => !judged.includes(each.id));
  // Pairs that were skipped come last, in the order in which they were skipped.
  const [pair] = pairs?.toSorted((a, b) => skipped.indexOf(a.id) - skipped.indexOf(b.id)) ?? [];
  const isComplete = questions.every(([key]) => answers[key] !== undefined);
  const submit = async (): Promise<void> => {
    try {
      const rating = { rater, pair: pair!.id, ...given.current };
      await load({ path: "ratings/add", body: { ...target, rating } });
      setJudged([...judged, pair!.id]);
      setAnswers({});
      setProblem(null);
    } catch (error) {
      setProblem(getMessage(error));
    }
  };
  const skip = (): void => {
    setSkipped([...skipped.filter((each) => each !== pair!.id), pair!.id]);
    setAnswers({});
  };
  useKeys(pair !== undefined, given, setAnswers, () => void submit(), skip);
  return (
    <>
      <Problem message={problem ?? loadProblem} />
      {rater === "" && <p class="note">Enter your name to start.</p>}
      {pairs && !pair && <p role="status">You have judged every pair of this attack. Thank you.</p>}
      {pair && (
        <form
          class="panel"
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <div class="panels">
            {[pair.first, pair.second].map((html, i) => (
              <section key={i} aria-label={`Text ${"AB"[i]}`}>
                <h2>Text {"AB"[i]}</h2>
                <ReportPart html={html} />
              </section>
            ))}
          </div>
          <Questions answers={answers} onAnswer={setAnswers} />
          <p class="actions">
            <button type="submit" disabled={!isComplete}>
              Save and continue
            </button>
            <button type="button" class="quiet" onClick={skip}>
              Skip
            </button>
            <span class="note">{pairs!.length} pairs left</span>
            <span class="note">
              Keys: <kbd>y</kbd> yes, <kbd>n</kbd> no, <kbd>Backspace</kbd> undo, <kbd>Enter</kbd> save, <kbd>s</kbd>{" "}
              skip
            </span>
          </p>
        </form>
      )}
      {report && <Report report={report} />}
    </>
  );
}

/** Answers by keys, as the line below the form says. */
function useKeys(
  isActive: boolean,
  given: { readonly current: Answers },
  setAnswers: (answers: Answers) => void,
  submit: () => void,
  skip: () => void,
): void {
  useEffect(() => {
    if (!isActive) return;
    const answer = (event: KeyboardEvent): void => {
      const isTyping = event.target instanceof Element && event.target.closest("input[type=text], select, textarea");
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      const { current } = given;
      const next = questions.find(([key]) => current[key] === undefined)?.[0];
      const last = questions.findLast(([key]) => current[key] !== undefined)?.[0];
      if ((event.key === "y" || event.key === "n") && next) setAnswers({ ...current, [next]: event.key === "y" });
      else if (event.key === "Backspace" && last) setAnswers({ ...current, [last]: undefined });
      else if (event.key === "Enter" && !next) submit();
      else if (event.key === "s") skip();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", answer);
    return () => removeEventListener("keydown", answer);
  });
}

function Questions({ answers, onAnswer }: { answers: Answers; onAnswer(answers: Answers): void }) {
  return questions.map(([key, question]) => (
    <fieldset key={key}>
      <legend>{question}</legend>
      {[true, false].map((value) => (
        <label key={String(value)}>
          <input
            type="radio"
            name={key}
            checked={answers[key] === value}
            onChange={() => onAnswer({ ...answers, [key]: value })}
          />{" "}
          {value ? "yes" : "no"}
        </label>
      ))}
    </fieldset>
  ));
}

function Report({ report: { ratings, raters, pairs, validity, grammar, agreement } }: { report: RatingReport }) {
  if (!validity || !grammar) return <p class="note">No judgments yet.</p>;
  const rows = [
    ["Pairs with the same meaning", validity],
    ["Grammatical originals", grammar.original],
    ["Grammatical attacked texts", grammar.attacked],
  ] as const;
  return (
    <section aria-label="Judgments so far">
      <h2>Judgments so far</h2>
      <p>{`${ratings} judgments of ${pairs} pairs by ${raters} ${raters === 1 ? "person" : "people"}`}</p>
      <dl>
        {rows.map(([title, cell]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>
              {formatCell(cell).value} (95% CI {formatCell(cell).interval})
            </dd>
          </div>
        ))}
        <div>
          <dt>Agreement on meaning (Fleiss' kappa)</dt>
          <dd>{agreement === null ? "–" : formatNumber(agreement, 2)}</dd>
        </div>
      </dl>
    </section>
  );
}
