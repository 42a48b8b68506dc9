// SPDX-License-Identifier: Apache-2.0
// Runs SQL by DuckDB: query.mjs VIEWS.sql < [statement, ...] in the folder that the views read.
// Prints the rows of each statement as objects; an integer is {"integer": "its digits"}.
import { readFileSync } from "node:fs";
import { DuckDBInstance } from "@duckdb/node-api";

const connection = await (await DuckDBInstance.create(":memory:")).connect();
await connection.run(readFileSync(process.argv[2], "utf8"));
const answers = [];
for (const statement of JSON.parse(readFileSync(0, "utf8"))) {
  answers.push((await connection.runAndReadAll(statement)).getRowObjects());
}
const withDigits = (_, value) => (typeof value === "bigint" ? { integer: `${value}` } : value);
process.stdout.write(JSON.stringify(answers, withDigits));
