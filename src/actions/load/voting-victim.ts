import { createHash } from "node:crypto";
import type { PreparedInput, Victim } from "../../attacks/victim.js";
import { scoreVotes } from "../../certificates/certified-models.js";
import { type HashVoteOptions, listVoters } from "../../certificates/hash-vote.js";
import { type Classifier, classify, type Model, tokenizeAll } from "../../models/index.js";
import type { Encoding } from "../../text/encoding.js";
import { classifyParts } from "../predict/voting.js";

/** A text as the sub-texts that vote on it. */
interface VotingInput extends PreparedInput {
  readonly voters: readonly Encoding[];
}

/**
 * The model that votes, as an attack sees it. `base` is the same model without the vote. An attack
 * must attack the model that is used, because certificates of the vote say nothing about the base.
 */
export function createVotingVictim(
  base: Victim<PreparedInput>,
  model: Model,
  classifier: Classifier,
  voting: HashVoteOptions,
): Victim<VotingInput> {
  const { groups, hashSeed, editableFields } = voting;
  const identity = [base.hash, "hash-vote", groups, hashSeed, editableFields ?? null];
  const [unkToken] = model.tokenizer.idsToTokens([model.tokenizer.special.unkId]) as [string];
  const { name, numLabels, hashes, isDeterministic, maxBatchSize, maxBatchTokens } = base;
  return {
    name,
    numLabels,
    hashes,
    isDeterministic,
    maxBatchSize,
    ...(maxBatchTokens !== undefined && { maxBatchTokens }),
    hash: createHash("sha256").update(JSON.stringify(identity)).digest("hex"),
    prepare(input) {
      const texts = listVoters(input(unkToken), voting);
      const voters = tokenizeAll(model, texts);
      return { voters, content: JSON.stringify(texts), length: voters.reduce((sum, { ids }) => sum + ids.length, 0) };
    },
    async probabilities(inputs) {
      const rows = await classifyParts(
        inputs.map(({ voters }) => voters),
        (encodings) => classify(classifier, encodings),
      );
      // Scores from 0 to 1 in the same order.
      return rows.map((row) => Float32Array.from(scoreVotes(row, numLabels), (score) => (score + 0.5) / (groups + 1)));
    },
  };
}
