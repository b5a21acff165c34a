import { useEffect, useState } from "preact/hooks";
import { formatCount, formatPercent } from "../../base/format.js";
import { shellQuote } from "../../base/shell.js";
import { outcomeTitles } from "../../evaluation/outcomes.js";
import type { JournalInfo, JournalText, TextsPage } from "../api.js";
import { DiffText } from "./diff-text.js";
import { Bar, Loading, Problem, ReportPart, SearchInput, Select, useDelayed, useLoaded } from "./widgets.js";

interface JournalTextsProps {
  readonly id: string;
  readonly labels: readonly string[];
  readonly journals: readonly JournalInfo[];
  /** The numbers of all attacks. */
  readonly table: string | null;
  readonly folder: string;
}

const pageSize = 10;
const outcomeOptions = Object.entries(outcomeTitles).map(([value, title]) => ({ value, title }));

function toOption({ name, done, total }: JournalInfo): { readonly value: string; readonly title: string } {
  const rest = done < total ? ` of ${formatCount(total)}` : "";
  return { value: name, title: `${name} (${formatCount(done)}${rest})` };
}

/** Texts of an attack with their word diffs. The server searches; the page shows a part. */
export function AttackedTexts({ id, labels, journals, table, folder }: JournalTextsProps) {
  const [attack, setAttack] = useState(journals[0]?.name ?? "");
  const [outcome, setOutcome] = useState("");
  const [search, setSearch] = useState("");
  const [limit, setLimit] = useState(pageSize);
  const wanted = useDelayed(search, 200);
  const name = journals.some((journal) => journal.name === attack) ? attack : (journals[0]?.name ?? "");
  const version = journals.find((journal) => journal.name === name)?.done;
  useEffect(() => setLimit(pageSize), [name, outcome, wanted]);
  const query = { id, attack: name, search: wanted, limit, ...(outcome && { outcome }) };
  const { last: page, problem } = useLoaded<TextsPage>(name === "" ? null : { path: "texts", query, version });
  return (
    <section aria-labelledby="texts">
      <h2 id="texts">Attacked texts</h2>
      {journals.length === 0 ? (
        <>
          <p class="note">No attack yet. Start one:</p>
          <pre>
            <code>temper attack {shellQuote(folder)} --attack pwws --num-examples 100</code>
          </pre>
        </>
      ) : (
        <>
          {table !== null && <ReportPart html={table} />}
          <form class="filters" onSubmit={(event) => event.preventDefault()}>
            <Select title="Attack" value={name} options={journals.map(toOption)} onChange={setAttack} />
            <Select title="Outcome" none="all" value={outcome} options={outcomeOptions} onChange={setOutcome} />
            <SearchInput title="Search the texts" value={search} onChange={setSearch} />
            <output aria-live="polite">
              {page && `${formatCount(page.matching)} of ${formatCount(page.total)} texts`}
            </output>
          </form>
          <Problem message={problem} />
          {!page && problem === null && <Loading what="texts" />}
          <div class="cards">
            {page?.texts.map((text) => (
              <TextCard key={text.id} text={text} labels={labels} />
            ))}
          </div>
          {page && page.texts.length < page.matching && limit < 200 && (
            <button type="button" class="quiet" onClick={() => setLimit(Math.min(200, limit + 2 * pageSize))}>
              Show more
            </button>
          )}
          {page && limit >= 200 && page.matching > 200 && <p class="note">Search to find other texts.</p>}
        </>
      )}
    </section>
  );
}

function TextCard({ text, labels }: { text: JournalText; labels: readonly string[] }) {
  const { id, label, outcome, edits, queries } = text;
  const words = `${edits.length} ${edits.length === 1 ? "word" : "words"} changed`;
  return (
    <article class={`example ${outcome}`}>
      <header>
        <h3>{id}</h3>
        <span class={`badge ${outcome}`}>{outcomeTitles[outcome]}</span>
        <small>
          labeled <b>{labels[label] ?? `class ${label}`}</b>, {outcome !== "skipped" && `${words}, `}
          {formatCount(queries)} queries
        </small>
      </header>
      <DiffText fields={text.fields} />
      <Probabilities
        labels={labels}
        before={text.before}
        after={outcome === "skipped" ? null : text.after}
        gold={label}
      />
    </article>
  );
}

interface ProbabilitiesProps {
  readonly labels: readonly string[];
  readonly before: readonly number[];
  readonly after?: readonly number[] | null;
  readonly gold?: number | null;
}

/** The probability of each class, before and after an attack. */
export function Probabilities({ labels, before, after = null, gold = null }: ProbabilitiesProps) {
  return (
    <table class="probabilities">
      <caption class="sr-only">Probabilities</caption>
      <tbody>
        {before.map((value, i) => (
          <tr key={i} class={i === gold ? "gold" : ""}>
            <th scope="row">{labels[i] ?? `class ${i}`}</th>
            <td>
              <Bar fraction={after ? after[i]! : value} />
              {formatPercent(value)}
              {after && ` → ${formatPercent(after[i]!)}`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
