-- One transaction of pgbench: it places an order, moves an older one on, and now and then cancels an old one.
\set customer random(1, 1000)
\set cents random(100, 99999)
\set age random(1, 50)
BEGIN;
INSERT INTO customers VALUES (:customer, 'customer ' || :customer, 'city ' || :customer % 7)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name;
INSERT INTO orders (customer_id, amount) VALUES (:customer, :cents / 100.0);
UPDATE orders SET status = CASE status WHEN 'new' THEN 'paid' ELSE 'shipped' END
    WHERE id = (SELECT max(id) FROM orders) - :age;
DELETE FROM orders WHERE id = (SELECT max(id) FROM orders) - 60 AND status = 'new';
COMMIT;
