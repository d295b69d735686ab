(* Bridge.v: the small model of Paging.v is the model of Model.v on hard traces with unit sizes.

   `run` of either file accepts the same schedules and counts the same misses and insertions; so what C1.v and C2.v
   say is said about the model that A1.v, B1.v and E2.v use. *)

From Coq Require Import List ZArith Bool Arith Lia Permutation.
Require Paging.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* n items of size 1, one is retrieved, a hit is worth 1. *)
Definition unit_sizes (V : Paging.variant) (K n : nat) (free : bool) : setting :=
  {| sizes := repeat 1 n; capacity := Z.of_nat K;
     serves_first := Paging.serves_first V; stream := Paging.stream V; free_fill := free;
     top_k := 1; covers := false; full := 1 |}.

(* One step of softhit.from_requests. *)
Definition ask (q : nat) : query :=
  {| row := [{| item := q; quality := 1; rank := 0 |}]; weight := 1; arrival := Some q |}.

Definition done (a : Paging.action) : change :=
  {| leaves := Paging.leaves a; enters := Paging.enters a |}.

Definition below (n : nat) (c : list nat) : Prop := forall x, In x c -> (x < n)%nat.

Lemma held_mem : forall x c d, Permutation c d -> Paging.held x c = mem x d.
Proof.
  intros x c d P. destruct (Paging.held x c) eqn:E, (mem x d) eqn:F; try reflexivity.
  - apply Paging.held_In in E. apply mem_false in F. exfalso. apply F. now apply (Permutation_in x P).
  - apply Paging.held_nIn in E. apply mem_In in F. exfalso. apply E.
    now apply (Permutation_in x (Permutation_sym P)).
Qed.

Lemma drops : forall x c, Paging.drop x c = drop x c.
Proof. induction c as [| y c IH]; [ reflexivity |]. cbn. now rewrite IH. Qed.

Lemma drop_both : forall x c d, Permutation c d -> In x c -> Permutation (Paging.drop x c) (drop x d).
Proof.
  intros x c d P I. rewrite drops. apply (Permutation_cons_inv (a := x)).
  rewrite <- (drop_perm x c I), <- (drop_perm x d (Permutation_in x P I)). exact P.
Qed.

Lemma leave_both : forall n l c d, Permutation c d -> below n d ->
  match Paging.leave_all c l with
  | None => leave l d = None
  | Some c1 => exists d1, leave l d = Some d1 /\ Permutation c1 d1 /\ below n d1
  end.
Proof.
  intros n; induction l as [| x l IH]; intros c d P B; cbn [Paging.leave_all leave].
  - exists d. auto.
  - rewrite (held_mem x c d P). destruct (mem x d) eqn:E; [| reflexivity ].
    apply mem_In in E. apply IH.
    + apply drop_both; [ assumption | now apply (Permutation_in x (Permutation_sym P)) ].
    + intros y H. apply B. now apply (drop_incl x d).
Qed.

Lemma nth_ones : forall n x, (x < n)%nat -> nth x (repeat 1 n) 0 = 1.
Proof.
  induction n as [| n IH]; intros x H; [ lia |]. destruct x; [ reflexivity | cbn; apply IH; lia ].
Qed.

Lemma used_length : forall V K n free d, below n d -> used (unit_sizes V K n free) d = Z.of_nat (length d).
Proof.
  intros V K n free d; induction d as [| x d IH]; intros B; [ reflexivity |].
  unfold used in *. cbn [map length]. rewrite Zsum_cons, IH by (intros y H; apply B; now right).
  unfold size. cbn [sizes unit_sizes].
  assert (nth x (repeat 1 n) 0 = 1) as -> by (apply nth_ones; apply B; now left). lia.
Qed.

Lemma enter_both : forall V K n free q l c d, Permutation c d -> below n d -> below n l ->
  match Paging.enter_all V K q c l with
  | None => enter (unit_sizes V K n free) (ask q) l d = None
  | Some c1 => exists d1, enter (unit_sizes V K n free) (ask q) l d = Some d1 /\ Permutation c1 d1 /\ below n d1
  end.
Proof.
  intros V K n free q; induction l as [| x l IH]; intros c d P B Bl; cbn [Paging.enter_all enter].
  - exists d. auto.
  - assert (x < n)%nat as Hx by (apply Bl; now left).
    assert (below n (d ++ [x])) as B2.
    { intros y H. apply in_app_iff in H as [H | [<- | []]]; [ now apply B | assumption ]. }
    assert (n_items (unit_sizes V K n free) = n) as -> by (unfold n_items; cbn; apply repeat_length).
    assert ((x <? n)%nat = true) as -> by now apply Nat.ltb_lt.
    rewrite (held_mem x c d P), used_length, app_length by assumption.
    cbn [length capacity unit_sizes andb].
    destruct (mem x d); [ reflexivity |]. cbn [negb andb].
    unfold may_enter. cbn [stream unit_sizes arrival ask].
    rewrite (Nat.eqb_sym q x).
    destruct (Paging.stream V); cbn [negb orb andb]; [ destruct (x =? q)%nat; cbn [negb andb]; [| reflexivity ] |].
    all: rewrite (Permutation_length P);
      assert ((Z.of_nat (length d + 1) <=? Z.of_nat K) = (S (length d) <=? K)%nat) as ->
        by (destruct (Z.leb_spec (Z.of_nat (length d + 1)) (Z.of_nat K)), (Nat.leb_spec (S (length d)) K); lia);
      destruct (S (length d) <=? K)%nat; [| reflexivity ];
      apply IH; [ | exact B2 | intros y H; apply Bl; now right ];
      rewrite P; apply Permutation_cons_append.
Qed.

Lemma miss_both : forall V K n free q c d, Permutation c d ->
  miss (unit_sizes V K n free) (ask q) d = Z.of_nat (Paging.miss q c).
Proof.
  intros V K n free q c d P. unfold miss, utility, retrieved, Paging.miss.
  cbn [row ask filter item]. rewrite (held_mem q c d P).
  destruct (mem q d); reflexivity.
Qed.

(* The same answer on every schedule whose items are among the n. *)
Theorem paging_is_the_model : forall V K n free l c d,
  Permutation c d -> below n d -> (forall q a, In (q, a) l -> below n (Paging.enters a)) ->
  match Paging.run V K c l with
  | None => run (unit_sizes V K n free) d (map ask (map fst l)) (map done (map snd l)) = None
  | Some (c1, m, z) =>
      exists d1, run (unit_sizes V K n free) d (map ask (map fst l)) (map done (map snd l))
                 = Some (Z.of_nat m, Z.of_nat z, d1) /\ Permutation c1 d1
  end.
Proof.
  intros V K n free; induction l as [| [q a] l IH]; intros c d P B R; cbn [Paging.run map fst snd run].
  - exists d. auto.
  - unfold Paging.update, update. cbn [done leaves enters].
    pose proof (leave_both n (Paging.leaves a) c d P B) as Lv.
    destruct (Paging.leave_all c (Paging.leaves a)) as [c1 |]; [| now rewrite Lv ].
    destruct Lv as [d1 [-> [P1 B1]]].
    pose proof (enter_both V K n free q (Paging.enters a) c1 d1 P1 B1 (R q a (or_introl eq_refl))) as En.
    destruct (Paging.enter_all V K q c1 (Paging.enters a)) as [c2 |]; [| now rewrite En ].
    destruct En as [d2 [-> [P2 B2]]].
    specialize (IH c2 d2 P2 B2 (fun q' a' H => R q' a' (or_intror H))).
    destruct (Paging.run V K c2 l) as [[[c3 m] z] |]; [| now rewrite IH ].
    destruct IH as [d3 [-> P3]]. exists d3. split; [| assumption ].
    cbn [serves_first unit_sizes]. f_equal. f_equal. f_equal.
    + rewrite (miss_both V K n free q (if Paging.serves_first V then c else c2) _);
        [ lia | destruct (Paging.serves_first V); assumption ].
    + pose proof (used_length V K n free (Paging.enters a) (R q a (or_introl eq_refl))) as U.
      unfold used in U. rewrite U. lia.
Qed.

(* And the same price, in units of D per miss and L per insertion. *)
Theorem paging_price : forall V K n D L m z,
  price (unit_sizes V K n false) (Z.of_nat L) (Z.of_nat D) (Z.of_nat m) (Z.of_nat z)
    = Z.of_nat (Paging.charged D L m z) /\
  price (unit_sizes V K n true) (Z.of_nat L) (Z.of_nat D) (Z.of_nat m) (Z.of_nat z)
    = Z.of_nat (Paging.free_fill K D L m z).
Proof.
  intros. unfold price, paid, Paging.charged, Paging.free_fill.
  cbn [free_fill full capacity unit_sizes]. split; [ nia |].
  rewrite Nat2Z.inj_add, !Nat2Z.inj_mul, Nat2Z.inj_sub_max. lia.
Qed.
