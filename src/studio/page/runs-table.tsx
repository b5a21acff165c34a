import { Fragment } from "preact";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { formatCount, formatPercent } from "../../base/format.js";
import { isAttackMetric } from "../../evaluation/metric-table.js";
import type { RunRow } from "../api.js";
import { linkTo } from "./route.js";
import { Bar, formatCell, Progress, StateBadge } from "./widgets.js";

interface TableProps {
  readonly rows: readonly RunRow[];
  readonly sort: { readonly key: string; readonly isDescending: boolean };
  readonly selected: ReadonlySet<string>;
  onSort(key: string): void;
  onToggle(id: string): void;
}

/** Rows that are drawn first, and again whenever somebody scrolls close to the last one. */
const rowsPerPart = 100;

export function RunsTable({ rows, sort, selected, onSort, onToggle }: TableProps) {
  const [limit, setLimit] = useState(rowsPerPart);
  const measured = new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)));
  const attacks = [...measured].filter(isAttackMetric).sort();
  const metrics = ["accuracy", ...attacks, ...(attacks.length > 0 ? ["worst-case"] : [])];
  const titles: Record<string, string> = { accuracy: "Clean accuracy", "worst-case": "Worst case" };
  const head = (key: string, text: string) => (
    <th scope="col" class={key} aria-sort={sort.key !== key ? "none" : sort.isDescending ? "descending" : "ascending"}>
      <button type="button" onClick={() => onSort(key)}>
        {text} <span aria-hidden="true">{sort.key !== key ? "" : sort.isDescending ? "↓" : "↑"}</span>
      </button>
    </th>
  );
  return (
    <section
      class="table-box"
      aria-label="Table of runs"
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        if (scrollTop + 3 * clientHeight > scrollHeight && limit < rows.length) setLimit(limit + rowsPerPart);
      }}
    >
      <table class="table" aria-label="Runs">
        <thead>
          <tr>
            <th scope="col">
              <span class="sr-only">Selected</span>
            </th>
            {head("name", "Run")}
            {head("method", "Method")}
            {head("seed", "Seed")}
            {metrics.map((id) => head(id, titles[id] ?? id))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map((row) => (
            <Row
              key={row.id}
              row={row}
              metrics={metrics.join()}
              isSelected={selected.has(row.id)}
              onToggle={onToggle}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface RowProps extends Pick<TableProps, "onToggle"> {
  readonly row: RunRow;
  /** The ids of the columns, so that a row is drawn again only if it has changed. */
  readonly metrics: string;
  readonly isSelected: boolean;
}

const Row = memo(
  ({ row, metrics, isSelected, onToggle }: RowProps) => {
    const { id, name, state, task, methodLabel, seed, degeneracy, failure } = row;
    return (
      <tr class={isSelected ? "selected" : ""}>
        <td class="select">
          <input type="checkbox" aria-label={`Select ${name}`} checked={isSelected} onChange={() => onToggle(id)} />
        </td>
        <td class="name">
          {/* A long path breaks between its folders. */}
          <a href={linkTo("run", { id })}>
            {name.split(/(?<=\/)/).map((part, i) => (
              <Fragment key={i}>
                {part}
                <wbr />
              </Fragment>
            ))}
          </a>
          <StateBadge state={state} />{" "}
          {degeneracy !== null && (
            <span class="degenerate" title={degeneracy}>
              degenerate
            </span>
          )}
          <small>{failure ?? task}</small>
          {(state === "running" || state === "stopped") && <Progress row={row} />}
        </td>
        <td class="method">{methodLabel.replaceAll(",", ", ")}</td>
        <td class="seed">{seed}</td>
        {metrics.split(",").map((metric) => (
          <td class={metric} key={metric}>
            <Metric row={row} id={metric} />
          </td>
        ))}
      </tr>
    );
  },
  (a, b) => a.row === b.row && a.metrics === b.metrics && a.isSelected === b.isSelected,
);

function Metric({ row, id }: { row: RunRow; id: string }) {
  const cell = row.metrics[id];
  const { bestValidation, state, degeneracy } = row;
  if (!cell) {
    const isWaiting = id === "accuracy" && bestValidation !== null && state !== "finished";
    return isWaiting ? <small>validation {formatPercent(bestValidation)}</small> : <span class="none">–</span>;
  }
  const { value, interval } = formatCell(cell);
  return (
    <>
      <b>{value}</b>
      <small>
        {interval}
        {cell.examples !== null && ` of ${formatCount(cell.examples)}`}
      </small>
      {degeneracy === null && <Bar fraction={cell.value} />}
    </>
  );
}
