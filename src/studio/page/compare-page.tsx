import { getComparisonMark } from "../../evaluation/comparison-mark.js";
import { describeMetric } from "../../evaluation/metric-table.js";
import { formatCount, formatPercent, formatPValue } from "../../format.js";
import type { ComparisonAnswer } from "../api.js";
import { post } from "./api.js";
import { Chart } from "./chart.js";
import { linkTo } from "./route.js";
import { EmptyState, Loading, Problem, ScrollBox, useLoaded } from "./widgets.js";

type Models = readonly { readonly name: string; readonly runs: readonly string[] }[];

function parseModels(text: string): Models {
  try {
    return JSON.parse(text) as Models;
  } catch {
    return [];
  }
}

/** Compares models as `temper compare` does, with their curves in the same charts. */
export function ComparePage({ models: text, theme }: { models: string; theme: string }) {
  const models = parseModels(text);
  const { data, problem } = useLoaded(
    () => (models.length > 0 ? post<ComparisonAnswer>("compare", { models }) : Promise.resolve(null)),
    [text],
  );
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
        <label>
          Compare with{" "}
          <select
            value={baseline!.name}
            onChange={(event) => {
              const name = event.currentTarget.value;
              const ordered = models.toSorted((a, b) => Number(b.name === name) - Number(a.name === name));
              location.hash = linkTo("compare", { models: JSON.stringify(ordered) });
            }}
          >
            {models.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </header>
      <Problem message={problem} />
      {!data ? problem === null && <Loading what="the comparison" /> : <Comparison data={data} theme={theme} />}
    </article>
  );
}

function Comparison({ data, theme }: { data: ComparisonAnswer; theme: string }) {
  return (
    <>
      {data.warnings.map((warning) => (
        <p class="warning" key={warning}>
          {warning}
        </p>
      ))}
      {data.comparisons.length > 0 && <ComparisonTable data={data} />}
      <section aria-labelledby="curves">
        <h2 id="curves">Training</h2>
        <div class="charts">
          {data.charts.map((chart) => (
            <Chart key={chart.id} chart={chart} theme={theme} />
          ))}
        </div>
      </section>
    </>
  );
}

function ComparisonTable({ data: { comparisons, runs, significanceLevel } }: { data: ComparisonAnswer }) {
  return (
    <section aria-labelledby="marks">
      <h2 id="marks">Differences</h2>
      <p class="note">
        ▲/▼: significantly better/worse than {runs[0]} on the same texts (Holm-corrected p &lt; {significanceLevel}).
      </p>
      <ScrollBox label="Differences">
        <table class="comparison">
          <thead>
            <tr>
              <th scope="col">metric</th>
              <th scope="col">model</th>
              <th scope="col">value</th>
              <th scope="col">{runs[0]}</th>
              <th scope="col">points</th>
              <th scope="col">95% CI</th>
              <th scope="col">p</th>
              <th scope="col">texts</th>
            </tr>
          </thead>
          <tbody>
            {comparisons.map((each) => {
              const { metric, secondName, first, second, difference, low, high, p, warning } = each;
              // The difference of a comparison is first minus second; the table shows the second.
              const mark = getComparisonMark(each);
              return (
                <tr key={`${metric} ${secondName}`}>
                  <td>{describeMetric(metric).title}</td>
                  <th scope="row">{secondName}</th>
                  <td>
                    <b>{formatPercent(second)}</b>{" "}
                    <span class={`mark ${mark?.kind ?? ""}`} title={warning ?? each.verdict}>
                      {mark?.symbol}
                    </span>
                  </td>
                  <td>{formatPercent(first)}</td>
                  <td>{formatPoints(-difference)}</td>
                  <td>
                    {formatPoints(-high)} to {formatPoints(-low)}
                  </td>
                  <td>{formatPValue(p.corrected).replace("= ", "")}</td>
                  <td>{formatCount(each.examples)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </ScrollBox>
      <ul class="verdicts">
        {comparisons.map(({ verdict }) => (
          <li key={verdict}>{verdict}</li>
        ))}
      </ul>
    </section>
  );
}

function formatPoints(difference: number): string {
  const points = 100 * difference;
  return `${points > 0 ? "+" : ""}${points.toFixed(1)}`;
}
