import type { ComparisonAnswer } from "../api.js";
import { Chart } from "./chart.js";
import { linkTo } from "./route.js";
import { EmptyState, Loading, Problem, ReportPart, Select, useLoaded } from "./widgets.js";

type Models = readonly { readonly name: string; readonly runs: readonly string[] }[];

function parseModels(text: string): Models {
  try {
    return JSON.parse(text) as Models;
  } catch {
    return [];
  }
}

/** Compares models as a report does, with their curves in the same charts. */
export function ComparePage({ models: text }: { models: string }) {
  const models = parseModels(text);
  const request = models.length > 0 ? { path: "compare", body: { models } } : null;
  const { last: data, problem } = useLoaded<ComparisonAnswer>(request);
  if (models.length === 0)
    return (
      <EmptyState title="Nothing selected">
        <p>
          Select runs in the <a href={linkTo("runs")}>table</a>, then choose Compare.
        </p>
      </EmptyState>
    );
  const [baseline] = models;
  return (
    <article>
      <header class="page">
        <p class="crumbs">
          <a href={linkTo("runs")}>Runs</a>
        </p>
        <h1>Comparison</h1>
        <Select
          title="Baseline"
          value={baseline!.name}
          options={models.map(({ name }) => ({ value: name }))}
          onChange={(name) => {
            const ordered = models.toSorted((a, b) => Number(b.name === name) - Number(a.name === name));
            location.hash = linkTo("compare", { models: JSON.stringify(ordered) });
          }}
        />
      </header>
      <Problem message={problem} />
      {!data ? problem === null && <Loading what="the comparison" /> : <Comparison data={data} />}
    </article>
  );
}

function Comparison({ data }: { data: ComparisonAnswer }) {
  return (
    <>
      <ReportPart html={data.html} />
      <section aria-labelledby="curves">
        <h2 id="curves">Training</h2>
        <div class="charts">
          {data.charts.map((chart) => (
            <Chart key={chart.id} chart={chart} />
          ))}
        </div>
      </section>
    </>
  );
}
