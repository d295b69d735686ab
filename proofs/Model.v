(* Model.v: the problem of docs/model.md as executable functions, shared by A1.v, B1.v and E2.v.

   Each definition names the Python function that it mirrors. Costs are integers: qualities in units of
   1/full, lambda = p/q, so a schedule costs (price s p q m z) units of 1/(full q). Covered: both orders,
   stream and pool, free and charged fill, sizes, weights, all three aggregators, with and without a score. *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
Import ListNotations.
Open Scope Z_scope.

(* ---- instances, softhit/trace.py and softhit/variant.py ---------------------------------------------- *)

(* One entry of a row. rank is what the retriever sorts by, smallest first: softhit's rank if the trace has
   a score, else full - quality (checker.py, _utilities, uses inst.scale - inst.quality in the same way).   *)
Record entry := Entry { item : nat; quality : Z; rank : Z }.
Record query := Query { row : list entry; weight : Z; arrival : option nat }.
(* What leaves and what enters at one step: one row of softhit.Schedule. *)
Record change := Change { leaves : list nat; enters : list nat }.

(* full: units per 1.0 of utility, softhit/retrieval.py utility_scale (quality_scale, times k for mean_topk). *)
Record setting := Setting {
  sizes : list Z;          (* one per item, so their number is n_items *)
  capacity : Z;
  serves_first : bool;     (* serve_then_update, else update_then_serve *)
  stream : bool;           (* only the arrival may enter, else pool *)
  free_fill : bool;
  top_k : nat;
  full : Z;
  covers : bool }.         (* the aggregator coverage, else best (top_k = 1) or mean_topk *)

Definition n_items (s : setting) : nat := length (sizes s).
Definition size (s : setting) (i : nat) : Z := nth i (sizes s) 0.

Definition mem (x : nat) (l : list nat) : bool := existsb (Nat.eqb x) l.

Fixpoint Zsum (l : list Z) : Z := match l with [] => 0 | x :: l' => x + Zsum l' end.

(* ---- softhit/verify.py: leaves first, then enters, capacity after each ------------------------------- *)

Fixpoint drop (x : nat) (l : list nat) : list nat :=
  match l with [] => [] | y :: l' => if Nat.eqb x y then l' else y :: drop x l' end.

Fixpoint leave (xs cache : list nat) : option (list nat) :=
  match xs with
  | [] => Some cache
  | x :: xs' => if mem x cache then leave xs' (drop x cache) else None
  end.

Definition used (s : setting) (cache : list nat) : Z := Zsum (map (size s) cache).

Definition may_enter (s : setting) (q : query) (x : nat) : bool :=
  negb (stream s) || match arrival q with Some a => Nat.eqb a x | None => false end.

Fixpoint enter (s : setting) (q : query) (xs cache : list nat) : option (list nat) :=
  match xs with
  | [] => Some cache
  | x :: xs' =>
      if (x <? n_items s)%nat && negb (mem x cache) && may_enter s q x
         && (used s (cache ++ [x]) <=? capacity s)
      then enter s q xs' (cache ++ [x]) else None
  end.

Definition update (s : setting) (q : query) (c : change) (cache : list nat) : option (list nat) :=
  match leave (leaves c) cache with None => None | Some held => enter s q (enters c) held end.

(* ---- softhit/retrieval.py: the first k held entries in rank order ------------------------------------ *)

(* Stable: equal ranks keep the order of the row, which is ascending in item id. *)
Fixpoint place (e : entry) (l : list entry) : list entry :=
  match l with
  | [] => [e]
  | f :: l' => if rank e <=? rank f then e :: l else f :: place e l'
  end.
Definition by_rank (l : list entry) : list entry := fold_right place [] l.

Definition retrieved (s : setting) (q : query) (cache : list nat) : list entry :=
  firstn (top_k s) (by_rank (filter (fun e => mem (item e) cache) (row q))).

Definition lost (unit : Z) (l : list Z) : Z := fold_right Z.mul 1 (map (fun u => unit - u) l).

(* 1 - prod (1 - s), rounded down to the grid 1/unit: softhit/retrieval.py _coverage. *)
Definition coverage (unit : Z) (l : list Z) : Z :=
  match l with [] => 0 | _ :: rest => unit + (- lost unit l) / unit ^ Z.of_nat (length rest) end.

Definition utility (s : setting) (q : query) (cache : list nat) : Z :=
  let found := map quality (retrieved s q cache) in
  if covers s then coverage (full s) found else Zsum found.

(* Cost of one step in units of 1/full, softhit/cost.py _misses. *)
Definition miss (s : setting) (q : query) (cache : list nat) : Z :=
  weight q * (full s - utility s q cache).

(* ---- softhit/cost.py --------------------------------------------------------------------------------- *)

(* Replay a schedule from a cache; None if verify rejects it, else (miss units, inserted size, last cache). *)
Fixpoint run (s : setting) (cache : list nat) (tr : list query) (sch : list change)
  : option (Z * Z * list nat) :=
  match tr, sch with
  | [], [] => Some (0, 0, cache)
  | q :: tr', c :: sch' =>
      match update s q c cache with
      | None => None
      | Some held =>
          match run s held tr' sch' with
          | None => None
          | Some (m, z, last) =>
              Some (miss s q (if serves_first s then cache else held) + m,
                    Zsum (map (size s) (enters c)) + z, last)
          end
      end
  | _, _ => None
  end.

Definition paid (s : setting) (inserted : Z) : Z :=
  if free_fill s then Z.max 0 (inserted - capacity s) else inserted.

(* softhit/cost.py price, in units of 1/(full q). *)
Definition price (s : setting) (p q m z : Z) : Z := q * m + p * full s * paid s z.

Definition cost (s : setting) (p q : Z) (tr : list query) (sch : list change) : option Z :=
  match run s [] tr sch with None => None | Some (m, z, _) => Some (price s p q m z) end.

(* What softhit.Trace and the checker's Instance.from_bytes guarantee. *)
Definition valid_query (s : setting) (q : query) : Prop :=
  0 <= weight q /\ NoDup (map item (row q)) /\
  Forall (fun e => (item e < n_items s)%nat /\ 0 <= quality e
                   /\ (if covers s then quality e else Z.of_nat (top_k s) * quality e) <= full s) (row q) /\
  match arrival q with Some a => (a < n_items s)%nat | None => True end.
Definition valid_trace (s : setting) (tr : list query) : Prop := Forall (valid_query s) tr.
Definition valid_setting (s : setting) : Prop :=
  (1 <= top_k s)%nat /\ 0 <= full s /\ 0 <= capacity s /\ Forall (fun z => 0 <= z) (sizes s).

(* ---- lemmas ------------------------------------------------------------------------------------------ *)

Lemma mem_In : forall x l, mem x l = true <-> In x l.
Proof.
  intros x l. unfold mem. rewrite existsb_exists. split.
  - intros (y & H & E). apply Nat.eqb_eq in E. now subst.
  - intros H. exists x. split; [assumption | apply Nat.eqb_refl].
Qed.

Lemma mem_false : forall x l, mem x l = false <-> ~ In x l.
Proof.
  intros x l. rewrite <- mem_In. destruct (mem x l); split; intros H; try easy; exfalso; now apply H.
Qed.

Lemma Zsum_app : forall a b, Zsum (a ++ b) = Zsum a + Zsum b.
Proof. induction a as [|x a IH]; intros b; cbn; [reflexivity | rewrite IH; lia]. Qed.

Lemma Zsum_cons : forall x l, Zsum (x :: l) = x + Zsum l.
Proof. reflexivity. Qed.

Lemma Zsum_perm : forall a b, Permutation a b -> Zsum a = Zsum b.
Proof. induction 1; cbn in *; lia. Qed.

Lemma Zsum_nonneg : forall l, Forall (fun z => 0 <= z) l -> 0 <= Zsum l.
Proof. induction 1; cbn in *; lia. Qed.

Lemma size_nonneg : forall s i, valid_setting s -> 0 <= size s i.
Proof.
  intros s i (_ & _ & _ & H). unfold size. rewrite Forall_forall in H.
  destruct (nth_in_or_default i (sizes s) 0) as [I | ->]; [now apply H | lia].
Qed.

Lemma drop_perm : forall x l, In x l -> Permutation l (x :: drop x l).
Proof.
  induction l as [|y l IH]; intros H; [easy|]. cbn. destruct (Nat.eqb_spec x y) as [->|N].
  - reflexivity.
  - destruct H as [->|H]; [easy|]. rewrite perm_swap. now constructor; apply IH.
Qed.

Lemma drop_incl : forall x l y, In y (drop x l) -> In y l.
Proof.
  induction l as [|z l IH]; cbn; intros y H; [easy|]. destruct (Nat.eqb x z); [now right|].
  destruct H as [->|H]; [now left | right; now apply IH].
Qed.

Lemma drop_other : forall x l y, y <> x -> In y l -> In y (drop x l).
Proof.
  induction l as [|z l IH]; cbn; intros y N H; [easy|]. destruct (Nat.eqb_spec x z) as [->|D].
  - destruct H as [->|H]; [now contradict N | assumption].
  - destruct H as [->|H]; [now left | right; now apply IH].
Qed.

Lemma drop_NoDup : forall x l, NoDup l -> NoDup (drop x l) /\ ~ In x (drop x l).
Proof.
  induction l as [|z l IH]; cbn; intros N; [split; [constructor | easy]|].
  inversion N as [|? ? Z N']; subst. destruct (Nat.eqb_spec x z) as [->|D]; [now split|].
  destruct (IH N') as [A B]. split.
  - constructor; [|assumption]. intros H. now apply Z, drop_incl with x.
  - intros [H|H]; [now apply D | now apply B].
Qed.

Lemma used_app : forall s a b, used s (a ++ b) = used s a + used s b.
Proof. intros. unfold used. now rewrite map_app, Zsum_app. Qed.

Lemma used_perm : forall s a b, Permutation a b -> used s a = used s b.
Proof. intros s a b P. unfold used. now apply Zsum_perm, Permutation_map. Qed.

(* The state of a cache that verify keeps up. *)
Definition sound (s : setting) (cache : list nat) : Prop :=
  NoDup cache /\ Forall (fun i => (i < n_items s)%nat) cache /\ used s cache <= capacity s.

Lemma leave_sound : forall s xs cache held, valid_setting s -> sound s cache -> leave xs cache = Some held ->
  sound s held /\ forall i, In i held -> In i cache.
Proof.
  induction xs as [|x xs IH]; cbn; intros cache held V S E.
  - injection E as <-. now split.
  - destruct (mem x cache) eqn:M; [|easy]. apply mem_In in M.
    destruct S as (N & F & U).
    assert (S' : sound s (drop x cache)).
    { split; [now apply drop_NoDup|]. split.
      - rewrite Forall_forall in *. intros i I. now apply F, drop_incl with x.
      - rewrite (used_perm s cache (x :: drop x cache) (drop_perm x cache M)) in U.
        unfold used in *. cbn in U |- *.
        pose proof (size_nonneg s x V). lia. }
    destruct (IH _ _ V S' E) as [A B]. split; [assumption|]. intros i I. now apply drop_incl with x, B.
Qed.

Lemma NoDup_snoc : forall (x : nat) l, NoDup l -> ~ In x l -> NoDup (l ++ [x]).
Proof.
  intros x l N I. apply Permutation_NoDup with (x :: l); [|now constructor].
  apply Permutation_cons_append.
Qed.

Lemma enter_cons : forall s q x xs cache held, enter s q (x :: xs) cache = Some held ->
  (x < n_items s)%nat /\ ~ In x cache /\ may_enter s q x = true /\ used s (cache ++ [x]) <= capacity s
  /\ enter s q xs (cache ++ [x]) = Some held.
Proof.
  intros s q x xs cache held E. simpl enter in E.
  match type of E with (if ?b then _ else _) = _ => destruct b eqn:B; [|easy] end.
  rewrite !andb_true_iff, negb_true_iff, mem_false in B. destruct B as (((A & B) & C) & D).
  apply Nat.ltb_lt in A. apply Z.leb_le in D. tauto.
Qed.

Lemma enter_sound : forall s q xs cache held, sound s cache -> enter s q xs cache = Some held ->
  sound s held /\ forall i, In i held -> In i cache \/ may_enter s q i = true.
Proof.
  induction xs as [|x xs IH]; intros cache held S E.
  - cbn in E. injection E as <-. split; [assumption | now left].
  - apply enter_cons in E. destruct E as (A & B & C & D & E). destruct S as (N & F & U).
    assert (S' : sound s (cache ++ [x])).
    { split; [now apply NoDup_snoc|]. split; [|assumption]. apply Forall_app. split; [assumption|].
      now constructor. }
    destruct (IH _ _ S' E) as [G H]. split; [assumption|]. intros i I. destruct (H i I) as [J|J]; [|now right].
    apply in_app_iff in J. cbn in J. destruct J as [J|[<-|[]]]; [now left | now right].
Qed.

Lemma update_sound : forall s q c cache held, valid_setting s -> sound s cache ->
  update s q c cache = Some held ->
  sound s held /\ forall i, In i held -> In i cache \/ may_enter s q i = true.
Proof.
  intros s q c cache held V S E. unfold update in E.
  destruct (leave (leaves c) cache) as [rest|] eqn:L; [|easy].
  destruct (leave_sound _ _ _ _ V S L) as [S1 I1]. destruct (enter_sound _ _ _ _ _ S1 E) as [S2 I2].
  split; [assumption|]. intros i I. destruct (I2 i I); [left; now apply I1 | now right].
Qed.

Lemma sound_nil : forall s, valid_setting s -> sound s [].
Proof. intros s (_ & _ & H & _). split; [constructor|]. split; [constructor|]. exact H. Qed.

Lemma place_perm : forall e l, Permutation (place e l) (e :: l).
Proof.
  induction l as [|f l IH]; cbn; [reflexivity|]. destruct (rank e <=? rank f); [reflexivity|].
  rewrite IH. apply perm_swap.
Qed.

Lemma by_rank_perm : forall l, Permutation (by_rank l) l.
Proof. induction l as [|e l IH]; cbn; [reflexivity|]. rewrite place_perm. now constructor. Qed.

(* All that the proofs need of retrieval: at most k different entries of the row, all held. *)
Lemma retrieved_ok : forall s q cache, NoDup (map item (row q)) ->
  (length (retrieved s q cache) <= top_k s)%nat /\ NoDup (map item (retrieved s q cache)) /\
  forall e, In e (retrieved s q cache) -> In e (row q) /\ In (item e) cache.
Proof.
  intros s q cache N. unfold retrieved.
  set (kept := filter (fun e => mem (item e) cache) (row q)).
  assert (NK : NoDup (map item (by_rank kept))).
  { apply Permutation_NoDup with (map item kept).
    - apply Permutation_map, Permutation_sym, by_rank_perm.
    - unfold kept. clear kept. induction (row q) as [|e l IH]; cbn in *; [constructor|].
      inversion N as [|? ? Z N']; subst. destruct (mem (item e) cache); cbn; [|now apply IH].
      constructor; [|now apply IH]. intros H. apply Z. apply in_map_iff in H. destruct H as (f & E & I).
      apply filter_In in I. rewrite <- E. apply in_map. tauto. }
  split; [apply firstn_le_length|]. split.
  - rewrite <- firstn_map. rewrite <- (firstn_skipn (top_k s)) in NK.
    revert NK. generalize (firstn (top_k s) (map item (by_rank kept))).
    generalize (skipn (top_k s) (map item (by_rank kept))). clear.
    intros b a. induction a as [|x a IH]; cbn; intros H; [constructor|].
    inversion H as [|? ? Z N']; subst. constructor; [|now apply IH].
    intros I. apply Z, in_app_iff. now left.
  - intros e I.
    assert (J : In e (by_rank kept)).
    { rewrite <- (firstn_skipn (top_k s) (by_rank kept)). apply in_app_iff. now left. }
    apply (Permutation_in e (by_rank_perm kept)), filter_In in J. rewrite mem_In in J. tauto.
Qed.

Lemma lost_bounds : forall u l, Forall (fun x => 0 <= x <= u) l -> 0 <= lost u l <= u ^ Z.of_nat (length l).
Proof.
  intros u l F. induction F as [|x l H F IH]; cbn [lost map fold_right length]; [cbn; lia|].
  rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. unfold lost in IH. nia.
Qed.

Lemma coverage_bounds : forall u l, 0 <= u -> Forall (fun x => 0 <= x <= u) l -> 0 <= coverage u l <= u.
Proof.
  intros u l U F. destruct l as [|x l]; [cbn; lia|]. pose proof (lost_bounds u _ F) as B. unfold coverage.
  cbn [length] in B. rewrite Nat2Z.inj_succ, Z.pow_succ_r in B by lia.
  destruct (Z.eq_dec u 0) as [->|N].
  - destruct l as [|y l].
    + cbn [length]. change (Z.of_nat 0) with 0 in *. rewrite Z.pow_0_r in *. rewrite Z.div_1_r. lia.
    + cbn [length]. rewrite Nat2Z.inj_succ, Z.pow_0_l by lia. rewrite Zdiv_0_r. lia.
  - assert (P : 0 < u ^ Z.of_nat (length l)) by (apply Z.pow_pos_nonneg; lia).
    set (d := u ^ Z.of_nat (length l)) in *. split.
    + assert (- u <= - lost u (x :: l) / d); [|lia]. apply Z.div_le_lower_bound; [assumption | lia].
    + assert (- lost u (x :: l) / d <= 0); [|lia]. apply Z.div_le_upper_bound; [assumption | lia].
Qed.

Lemma utility_bounds : forall s q cache, (1 <= top_k s)%nat -> 0 <= full s -> valid_query s q ->
  0 <= utility s q cache <= full s.
Proof.
  intros s q cache K FU (W & N & F & _). unfold utility.
  destruct (retrieved_ok s q cache N) as (L & _ & R). rewrite Forall_forall in F.
  destruct (covers s).
  - apply coverage_bounds; [assumption|]. apply Forall_forall. intros x I. apply in_map_iff in I.
    destruct I as (e & <- & I). destruct (R e I) as [I' _]. apply F in I'. tauto.
  - assert (H : forall l, (forall e, In e l -> 0 <= quality e /\ Z.of_nat (top_k s) * quality e <= full s) ->
      0 <= Zsum (map quality l)
      /\ Z.of_nat (top_k s) * Zsum (map quality l) <= Z.of_nat (length l) * full s).
    { induction l as [|e l IH]; intros H; cbn [map length Zsum]; [cbn; lia|].
      destruct (H e (or_introl eq_refl)). destruct (IH (fun f I => H f (or_intror I))).
      rewrite Nat2Z.inj_succ. split; [lia|nia]. }
    destruct (H (retrieved s q cache)) as [A B].
    + intros e I. destruct (R e I) as [I' _]. apply F in I'. tauto.
    + split; [assumption|]. nia.
Qed.

Lemma miss_nonneg : forall s q cache, (1 <= top_k s)%nat -> 0 <= full s -> valid_query s q ->
  0 <= miss s q cache.
Proof.
  intros s q cache K F V. pose proof (utility_bounds s q cache K F V). unfold miss.
  destruct V as (W & _). nia.
Qed.

Lemma run_app : forall s tr1 sch1 tr2 sch2 cache m1 z1 c1,
  run s cache tr1 sch1 = Some (m1, z1, c1) ->
  run s cache (tr1 ++ tr2) (sch1 ++ sch2) =
  match run s c1 tr2 sch2 with None => None | Some (m, z, c) => Some (m1 + m, z1 + z, c) end.
Proof.
  induction tr1 as [|q tr1 IH]; intros [|c sch1] tr2 sch2 cache m1 z1 c1 E; cbn in E; try easy.
  - injection E as <- <- <-. cbn [app]. destruct (run s cache tr2 sch2) as [[[m z] c]|]; reflexivity.
  - cbn. destruct (update s q c cache) as [held|]; [|easy].
    destruct (run s held tr1 sch1) as [[[m z] c']|] eqn:R; [|easy]. injection E as <- <- <-.
    rewrite (IH sch1 tr2 sch2 held m z c' R). destruct (run s c' tr2 sch2) as [[[m' z'] c'']|]; [|reflexivity].
    do 3 f_equal; lia.
Qed.

Lemma run_split : forall s tr1 tr2 sch cache m z c,
  run s cache (tr1 ++ tr2) sch = Some (m, z, c) ->
  exists sch1 sch2 m1 z1 c1 m2 z2, sch = sch1 ++ sch2 /\ m = m1 + m2 /\ z = z1 + z2 /\
    run s cache tr1 sch1 = Some (m1, z1, c1) /\ run s c1 tr2 sch2 = Some (m2, z2, c).
Proof.
  induction tr1 as [|q tr1 IH]; intros tr2 sch cache m z c E.
  - exists [], sch, 0, 0, cache, m, z. repeat split; try reflexivity; try lia. assumption.
  - destruct sch as [|h sch]; cbn in E; [easy|]. destruct (update s q h cache) as [held|] eqn:U; [|easy].
    destruct (run s held (tr1 ++ tr2) sch) as [[[m' z'] c']|] eqn:R; [|easy]. injection E as <- <- <-.
    destruct (IH _ _ _ _ _ _ R) as (s1 & s2 & m1 & z1 & c1 & m2 & z2 & -> & -> & -> & R1 & R2).
    exists (h :: s1), s2, (miss s q (if serves_first s then cache else held) + m1),
      (Zsum (map (size s) (enters h)) + z1), c1, m2, z2.
    cbn [run app]. rewrite U, R1. repeat split; try assumption; lia.
Qed.

Lemma run_sound : forall s tr sch cache m z c, valid_setting s -> sound s cache ->
  run s cache tr sch = Some (m, z, c) -> sound s c.
Proof.
  induction tr as [|q tr IH]; intros [|h sch] cache m z c V S E; cbn in E; try easy.
  - now injection E as <- <- <-.
  - destruct (update s q h cache) as [held|] eqn:U; [|easy].
    destruct (run s held tr sch) as [[[m' z'] c']|] eqn:R; [|easy]. injection E as <- <- <-.
    apply IH with sch held m' z'; try assumption. now apply (update_sound _ _ _ _ _ V S U).
Qed.

Lemma run_nonneg : forall s tr sch cache m z c, valid_setting s -> valid_trace s tr ->
  run s cache tr sch = Some (m, z, c) -> 0 <= m /\ 0 <= z.
Proof.
  induction tr as [|q tr IH]; intros [|h sch] cache m z c V T E; cbn in E; try easy.
  - injection E as <- <- <-. lia.
  - destruct (update s q h cache) as [held|] eqn:U; [|easy].
    destruct (run s held tr sch) as [[[m' z'] c']|] eqn:R; [|easy]. injection E as <- <- <-.
    inversion T as [|? ? Q T']; subst. destruct (IH _ _ _ _ _ V T' R).
    pose proof V as (K & F & _).
    pose proof (miss_nonneg s q (if serves_first s then cache else held) K F Q).
    assert (0 <= Zsum (map (size s) (enters h))).
    { apply Zsum_nonneg, Forall_forall. intros x I. apply in_map_iff in I. destruct I as (i & <- & _).
      now apply size_nonneg. }
    lia.
Qed.

(* Sums over lists without repetition. *)
Lemma Zsum_incl : forall (f : nat -> Z) l l', NoDup l -> incl l l' ->
  (forall i, In i l' -> 0 <= f i) -> Zsum (map f l) <= Zsum (map f l').
Proof.
  intros f l. induction l as [|x l IH]; intros l' N I P; cbn.
  - apply Zsum_nonneg, Forall_forall. intros z H. apply in_map_iff in H. destruct H as (i & <- & J). now apply P.
  - inversion N as [|? ? X N']; subst. assert (J : In x l') by (apply I; now left).
    rewrite (Zsum_perm (map f l') (f x :: map f (drop x l'))).
    + cbn. apply Zplus_le_compat_l, IH; [assumption| |].
      * intros y Y. apply drop_other; [intros ->; now apply X | apply I; now right].
      * intros i K. apply P. now apply drop_incl with x.
    + apply (Permutation_map f (drop_perm x l' J)).
Qed.

(* ---- unit sizes, hard requests ------------------------------------------------------------------------ *)

Definition unit_sizes (s : setting) : Prop := Forall (fun z => z = 1) (sizes s).

Lemma used_unit : forall s l, unit_sizes s -> Forall (fun i => (i < n_items s)%nat) l ->
  used s l = Z.of_nat (length l).
Proof.
  intros s l U F. unfold used. induction F as [|i l H F IH]; [reflexivity|]. cbn [map Zsum length].
  rewrite IH, Nat2Z.inj_succ. unfold unit_sizes in U. rewrite Forall_forall in U.
  unfold size. rewrite (U (nth i (sizes s) 0)) by now apply nth_In. lia.
Qed.

Lemma update_into_room : forall s q a cache, unit_sizes s -> Forall (fun i => (i < n_items s)%nat) cache ->
  (a < n_items s)%nat -> may_enter s q a = true -> ~ In a cache -> Z.of_nat (length cache) < capacity s ->
  update s q (Change [] [a]) cache = Some (cache ++ [a]).
Proof.
  intros s q a cache U F A M N R. unfold update. cbn [leaves leave enters]. simpl enter.
  rewrite (proj2 (Nat.ltb_lt _ _) A), (proj2 (mem_false _ _) N), M, (used_unit s _ U).
  - rewrite app_length, (proj2 (Z.leb_le _ _)); [reflexivity|]. cbn [length]. lia.
  - apply Forall_app. split; [assumption | now constructor].
Qed.

Lemma update_replace : forall s q a v cache, unit_sizes s -> Forall (fun i => (i < n_items s)%nat) cache ->
  (a < n_items s)%nat -> may_enter s q a = true -> ~ In a cache -> In v cache ->
  Z.of_nat (length cache) <= capacity s ->
  update s q (Change [v] [a]) cache = Some (drop v cache ++ [a]).
Proof.
  intros s q a v cache U F A M N I R. pose proof (Permutation_length (drop_perm v cache I)) as L.
  cbn [length] in L. unfold update. cbn [leaves leave enters]. rewrite (proj2 (mem_In v cache) I). simpl enter.
  assert (N' : ~ In a (drop v cache)) by (intros J; now apply N, drop_incl with v).
  rewrite (proj2 (Nat.ltb_lt _ _) A), (proj2 (mem_false _ _) N'), M, (used_unit s _ U).
  - rewrite app_length, (proj2 (Z.leb_le _ _)); [reflexivity|]. cbn [length]. lia.
  - apply Forall_app. split; [|now constructor]. apply Forall_forall. intros i J.
    rewrite Forall_forall in F. now apply F, drop_incl with v.
Qed.

(* A hard request: only its item serves it, perfectly, and it is the arrival (softhit.from_requests). *)
Definition hard (i : nat) : query := Query [Entry i 1 0] 1 (Some i).

Print Assumptions run_sound.
Print Assumptions retrieved_ok.
