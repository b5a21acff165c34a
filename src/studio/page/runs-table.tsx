import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatCount, formatPercent } from "../../base/format.js";
import { linkTo } from "./route.js";
import type { ShownRow } from "./run-rows.js";
import { Bar, formatCell, Progress, StateBadge } from "./widgets.js";

interface TableProps {
  readonly rows: readonly ShownRow[];
  readonly attacks: readonly string[];
  readonly sort: { readonly key: string; readonly isDescending: boolean };
  readonly selected: ReadonlySet<string>;
  onSort(key: string): void;
  onToggle(id: string): void;
}

const rowHeight = 60;
/** Rows that are drawn above and below what is visible. */
const margin = 6;

/** Draws only the rows that are visible, so that a thousand runs scroll as smoothly as ten. */
export function RunsTable({ rows, attacks, sort, selected, onSort, onToggle }: TableProps) {
  const box = useRef<HTMLElement>(null);
  const [view, setView] = useState({ top: 0, height: 900 });
  useEffect(() => {
    const element = box.current!;
    const update = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(update);
    observer.observe(element);
    element.addEventListener("scroll", update, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", update);
    };
  }, []);
  const start = Math.max(0, Math.floor(view.top / rowHeight) - margin);
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + margin);
  const metrics = ["accuracy", ...attacks, ...(attacks.length > 0 ? ["worst-case"] : [])];
  const titles: Record<string, string> = { accuracy: "Clean accuracy", "worst-case": "Worst case" };
  const columns = { "--metrics": metrics.length };
  const head = (key: string, text: string) => (
    <th
      scope="col"
      class={`cell ${key}`}
      aria-sort={sort.key !== key ? "none" : sort.isDescending ? "descending" : "ascending"}
    >
      <button type="button" onClick={() => onSort(key)}>
        {text} <span aria-hidden="true">{sort.key !== key ? "" : sort.isDescending ? "↓" : "↑"}</span>
      </button>
    </th>
  );
  return (
    <section ref={box} class="table-box" aria-label="Table of runs">
      <table class="table" style={columns} aria-label="Runs" aria-rowcount={rows.length + 1}>
        <thead class="head">
          <tr class="row" aria-rowindex={1}>
            <th scope="col" class="cell select">
              <span class="sr-only">Selected</span>
            </th>
            {head("name", "Run")}
            {head("state", "State")}
            {head("method", "Method")}
            {head("seed", "Seed")}
            {metrics.map((id) => head(id, titles[id] ?? id))}
          </tr>
        </thead>
        <tbody class="body" style={{ height: `${rows.length * rowHeight}px` }}>
          {rows.slice(start, end).map((row, i) => (
            <tr
              class={`row ${selected.has(row.id) ? "selected" : ""}`}
              key={row.id}
              aria-rowindex={start + i + 2}
              style={{ transform: `translateY(${(start + i) * rowHeight}px)` }}
            >
              <RowCells row={row} metrics={metrics} isSelected={selected.has(row.id)} onToggle={onToggle} />
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface CellProps extends Pick<TableProps, "onToggle"> {
  readonly row: ShownRow;
  readonly metrics: readonly string[];
  readonly isSelected: boolean;
}

function RowCells({ row, metrics, isSelected, onToggle }: CellProps) {
  const [first] = row.runs;
  const { state, methodLabel, seed, step, steps, name, failure } = first!;
  const isGroup = row.runs.length > 1;
  return (
    <>
      <td class="cell select">
        <input
          type="checkbox"
          aria-label={`Select ${row.title}`}
          checked={isSelected}
          onChange={() => onToggle(row.id)}
        />
      </td>
      <td class="cell name">
        <a href={linkTo("run", { id: first!.id })} title={row.title}>
          {row.title}
        </a>
        {row.degeneracy === null ? (
          <small title={failure ?? row.detail}>{failure ?? row.detail}</small>
        ) : (
          <small class="degenerate" title={row.degeneracy}>
            degenerate
          </small>
        )}
      </td>
      <td class="cell state">
        {isGroup ? <small>{countStates(row)}</small> : <StateBadge state={state} />}
        {!isGroup && (state === "running" || state === "stopped") && <Progress row={{ step, steps, name, state }} />}
      </td>
      <td class="cell method" title={methodLabel}>
        {methodLabel.split(/(?<=[,:])/).map((part) => (
          <Fragment key={part}>
            {part}
            <wbr />
          </Fragment>
        ))}
      </td>
      <td class="cell seed">{isGroup ? `${row.runs.length} seeds` : seed}</td>
      {metrics.map((id) => (
        <td class={`cell metric ${id}`} key={id}>
          <Metric row={row} id={id} />
        </td>
      ))}
    </>
  );
}

function Metric({ row, id }: { row: ShownRow; id: string }) {
  const cell = row.metrics[id];
  if (!cell) {
    const { bestValidation, state } = row.runs[0]!;
    const isWaiting = id === "accuracy" && bestValidation !== null && state !== "finished";
    return isWaiting ? <small>validation {formatPercent(bestValidation)}</small> : <span class="none">–</span>;
  }
  const { value, interval } = formatCell(cell);
  return (
    <>
      <b>{value}</b>
      <small>
        {cell.spread === undefined ? interval : `± ${(100 * cell.spread).toFixed(1)} over seeds`}
        {cell.examples !== null && ` of ${formatCount(cell.examples)}`}
      </small>
      {row.degeneracy === null && <Bar fraction={cell.value} />}
    </>
  );
}

function countStates({ runs }: ShownRow): string {
  const counts = new Map<string, number>();
  for (const { state } of runs) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
}
