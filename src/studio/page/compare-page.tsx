import type { ComparisonAnswer } from "../api.js";
import { linkTo } from "./route.js";
import { EmptyState, Loading, Problem, ReportPart, Select, useLoaded } from "./widgets.js";

export function ComparePage({ query }: { query: URLSearchParams }) {
  const runs = query.getAll("run");
  const body = { runs, baseline: query.get("baseline") ?? "" };
  const { last: data, problem } = useLoaded<ComparisonAnswer>(runs.length > 0 ? { path: "compare", body } : null);
  if (runs.length === 0)
    return (
      <EmptyState title="Nothing selected">
        <p>
          Select runs in the <a href={linkTo("runs")}>table</a>, then choose Compare.
        </p>
      </EmptyState>
    );
  const change = (baseline: string): void => {
    location.hash = linkTo("compare", [...runs.map((run) => ["run", run]), ["baseline", baseline]]);
  };
  return (
    <article>
      <header class="page">
        <p class="crumbs">
          <a href={linkTo("runs")}>Runs</a>
        </p>
        <h1>Comparison</h1>
        {data && (
          <Select
            title="Baseline"
            value={data.names[0]!}
            options={data.names.map((value) => ({ value }))}
            onChange={change}
          />
        )}
      </header>
      <Problem message={problem} />
      {data ? <ReportPart html={data.html} /> : problem === null && <Loading what="the comparison" />}
    </article>
  );
}
