-- The Postgres image runs this when it creates its database: a role with the rights of docs/security.md, and a shop.
\getenv password PGRELAY_PASSWORD
CREATE ROLE pgrelay LOGIN REPLICATION PASSWORD :'password';

CREATE TABLE customers (
    id   integer PRIMARY KEY,
    name text NOT NULL,
    city text NOT NULL
);
CREATE TABLE orders (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customers,
    status      text NOT NULL DEFAULT 'new',
    amount      numeric(10,2) NOT NULL,
    placed_at   timestamptz NOT NULL DEFAULT now()
);
CREATE PUBLICATION pgrelay FOR TABLE customers, orders;
