import { certifyVotes, type HashVoteOptions, listVoters, type VoteCertificate } from "../../certificates/hash-vote.js";
import { createVoteOptions } from "../../certificates/trained-certificate.js";
import type { Model } from "../../models/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeConfig } from "../../runs/runtime-config.js";
import { findModifiableFields } from "../../tasks/index.js";

/** Scores the parts of all texts together. Row i of the result has the scores of the parts of text i. */
export async function classifyParts<Item, Row>(
  parts: readonly (readonly Item[])[],
  score: (items: readonly Item[]) => Promise<readonly Row[]>,
): Promise<(readonly Row[])[]> {
  const items = parts.flat();
  const rows = items.length === 0 ? [] : await score(items);
  return splitLike(rows, parts);
}

/** Classifies texts by a vote of their groups. */
export async function classifyByVote<Item>(
  voters: readonly (readonly Item[])[],
  options: HashVoteOptions,
  score: (items: readonly Item[]) => Promise<readonly ArrayLike<number>[]>,
): Promise<VoteCertificate[]> {
  return (await classifyParts(voters, score)).map((rows) => certifyVotes(rows, options));
}

function splitLike<Value>(values: readonly Value[], parts: readonly (readonly unknown[])[]): (readonly Value[])[] {
  let start = 0;
  return parts.map(({ length }) => {
    start += length;
    return values.slice(start - length, start);
  });
}

/** Splits texts into the sub-texts that vote, and encodes them together. */
export function encodeVoters<Item>(
  texts: readonly (readonly string[])[],
  options: HashVoteOptions,
  encode: (texts: readonly (readonly string[])[]) => readonly Item[],
): (readonly Item[])[] {
  const voters = texts.map((fields) => listVoters(fields, options));
  return splitLike(encode(voters.flat()), voters);
}

/** How the model of a run votes; null if it does not. */
export async function findVoteOptions(
  { folder, labels }: Pick<Model, "folder" | "labels">,
  { precision }: Pick<RuntimeConfig, "precision">,
): Promise<HashVoteOptions | null> {
  const run = await RunFolder.containing(folder);
  if (run?.certificate?.kind !== "hash-vote") return null;
  const editableFields = run.config.task === null ? null : findModifiableFields(run.config.task);
  return createVoteOptions(run.certificate, {
    numLabels: labels.length,
    precision,
    ...(editableFields && { editableFields }),
  });
}
