import { formatCount } from "../../base/format.js";
import type { TaskGroups } from "../groups.js";
import { type Html, renderFacts } from "../html.js";
import type { ReportRun } from "../report-run.js";

/** Says what data the numbers are about, when they were measured and how texts were selected. */
export function renderData({ task, groups }: TaskGroups<ReportRun>, named: string | null = null): Html {
  const runs = groups.flatMap((group) => group.runs);
  const [first] = runs as [ReportRun];
  const source = first.environment.data.source;
  const { data } = first.run.config;
  const origin = source ? `${source.repository} at ${source.revision.slice(0, 12)}` : (named ?? data ?? "");
  const counts = [...new Set(runs.flatMap(({ results }) => results?.trainExamples ?? []))].map(formatCount);
  const tested = runs.find(({ results }) => results)?.results?.test;
  return renderFacts([
    ["Data", [task, origin].filter(Boolean).join(", ")],
    [
      "Texts",
      [
        ...(counts.length > 0 ? [`${counts.join(" or ")} for training`] : []),
        ...(tested ? [`${formatCount(tested.examples)} in the test split`] : []),
      ].join(", "),
    ],
    ["Attacked texts", describeSample(runs)],
    ["Measured", formatDates(runs)],
  ]);
}

/** The draw of the attacked texts, as the last attack of each run says. */
function describeSample(runs: readonly ReportRun[]): string {
  const sentences = runs.flatMap(({ attacks: { report, journals } }) => {
    const [journal] = journals.values();
    if (!journal) return [];
    const count = formatCount(journal.header.examples);
    if (!report) return [`${count} texts`];
    const { request, split, labels } = report;
    const { attackedLabel, sampling, numExamples, seed } = request;
    const label = typeof attackedLabel === "string" ? ` of ${attackedLabel}` : "";
    const wanted = typeof numExamples === "number" ? numExamples : journal.header.examples;
    const how =
      wanted > journal.header.examples
        ? "all that there are"
        : sampling === "class-balanced"
          ? `drawn with equal numbers of ${labels.join(", ") || "every label"}, seed ${String(seed)}`
          : `drawn at random, seed ${String(seed)}`;
    return [`${count} texts${label} of the ${split} split, ${how}`];
  });
  return [...new Set(sentences)].join("; ");
}

function formatDates(runs: readonly ReportRun[]): string {
  const days = [...new Set(runs.map(({ started }) => started.slice(0, 10)))].sort();
  return days.length > 1 ? `${days[0]} to ${days.at(-1)}` : days[0]!;
}
