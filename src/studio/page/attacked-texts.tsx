import { useEffect, useState } from "preact/hooks";
import { formatCount } from "../../base/format.js";
import { shellQuote } from "../../base/shell.js";
import { outcomeTitles } from "../../evaluation/outcomes.js";
import type { JournalInfo, TextsPage } from "../api.js";
import { Loading, Problem, ReportPart, SearchInput, Select, useDelayed, useLoaded } from "./widgets.js";

const [pageSize, maxTexts] = [10, 200];
const outcomeOptions = Object.entries(outcomeTitles).map(([value, title]) => ({ value, title }));

function toOption({ name, done, total }: JournalInfo): { readonly value: string; readonly title: string } {
  const rest = done < total ? ` of ${formatCount(total)}` : "";
  return { value: name, title: `${name} (${formatCount(done)}${rest})` };
}

/** Texts of an attack with their word diffs. The server searches; the page shows a part. */
export function AttackedTexts({
  id,
  journals,
  table,
  folder,
}: {
  readonly id: string;
  readonly journals: readonly JournalInfo[];
  readonly table: string | null;
  readonly folder: string;
}) {
  const [attack, setAttack] = useState("");
  const [outcome, setOutcome] = useState("");
  const [search, setSearch] = useState("");
  const [limit, setLimit] = useState(pageSize);
  const wanted = useDelayed(search, 200);
  const journal = journals.find(({ name }) => name === attack) ?? journals[0];
  useEffect(() => setLimit(pageSize), [attack, outcome, wanted]);
  const body = { id, attack: journal?.name, search: wanted, limit, ...(outcome && { outcome }) };
  const { last: page, problem } = useLoaded<TextsPage>(journal ? { path: "texts", body, version: journal.done } : null);
  if (!journal)
    return (
      <section aria-labelledby="texts">
        <h2 id="texts">Attacked texts</h2>
        <p class="note">No attack yet. Start one:</p>
        <pre>
          <code>temper attack {shellQuote(folder)} --attack pwws --num-examples 100</code>
        </pre>
      </section>
    );
  return (
    <section aria-labelledby="texts">
      <h2 id="texts">Attacked texts</h2>
      {table !== null && <ReportPart html={table} />}
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Select title="Attack" value={journal.name} options={journals.map(toOption)} onChange={setAttack} />
        <Select title="Outcome" none="all" value={outcome} options={outcomeOptions} onChange={setOutcome} />
        <SearchInput title="Search the texts" value={search} onChange={setSearch} />
        <output aria-live="polite">
          {page && `${formatCount(page.matching)} of ${formatCount(page.total)} texts`}
        </output>
      </form>
      <Problem message={problem} />
      {page ? <ReportPart html={page.html} /> : problem === null && <Loading what="texts" />}
      {page && limit < Math.min(maxTexts, page.matching) && (
        <button type="button" class="quiet" onClick={() => setLimit(Math.min(maxTexts, limit + 2 * pageSize))}>
          Show more
        </button>
      )}
      {page && limit === maxTexts && page.matching > limit && <p class="note">Search to find other texts.</p>}
    </section>
  );
}
